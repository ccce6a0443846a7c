"""The links as tiles, one per GPU, and as a table with everything that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard import formats
from dashboard.copy_path_links import BUSY_RATIO, LinkNow, UplinkNow, Way
from dashboard.copy_path_over import Over
from dashboard.copy_path_words import (
    CEILING_TIPS,
    WAY_TIPS,
    WAYS,
    above,
    at_rest,
    busy_both,
    ceiling,
    link_care,
    link_now,
    method,
    rate,
    ratio,
    state_look,
)
from dashboard.present import MINUTE_US
from dashboard.sheets import Cell, Head, Link, Row, Sheet, Table

MAX_TILES = 4
LONG_SHARE = 0.1
"""A link that was busy for less of the minute had a burst, which is what links are for."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Links, the hottest first, shared bridges, and what the links did over the whole range."""

    links: Sequence[LinkNow]
    uplinks: Sequence[UplinkNow]
    over: Over


def is_busy(way: Way) -> bool:
    """Return whether a direction was busy for long enough to be called so."""
    return way.above_share >= LONG_SHARE


def tiles(links: Sequence[LinkNow], minute: str) -> list[dict[str, Any]]:
    """Return the tiles, those in trouble first; what does not fit is named in the last of them.

    Args:
        links: Links, the hottest first.
        minute: How to call the minute they cover.
    """
    ordered = sorted(links, key=lambda link: not (is_busy(link.hot) or link.downtrained))
    shown = [_tile(link, minute) if link.known else _blind(link) for link in ordered[:MAX_TILES]]
    rest = ordered[MAX_TILES:]
    if rest:
        peaks = [peak for link in rest if (peak := link.hot.saturation_peak) is not None]
        most = f", at most {ratio(max(peaks))}" if peaks else ", not measured"
        shown[-1]["more"] = f"{formats.count(len(rest), 'more GPU')}{most}: see Links"
    return shown


def _tile(link: LinkNow, minute: str) -> dict[str, Any]:
    """Return the tile of a GPU whose link is measured."""
    hot = link.hot
    busy, worn = is_busy(hot), bool(link.downtrained)
    figure, _, unit = ratio(hot.saturation_peak).partition(formats.NBSP)
    side = "above" if busy else "below"
    word = f"{side} {formats.percent(BUSY_RATIO)}" if busy or not worn else "link degraded"
    return {
        "name": link.gpu.name,
        "word": word,
        "kind": "worse" if busy or worn else "fine",
        "figure": figure,
        "unit": unit,
        "what": f"{WAYS[hot.direction]} peak of achievable, {minute}",
        "under": f"above {formats.percent(BUSY_RATIO)}: {above(hot)}",
        "pairs": [_pair(link.rx), _pair(link.tx)],
        "lines": [
            f"Link {link_now(link.speed)}{', at rest' if at_rest(link) else ''}",
            method(link),
        ],
        "foot": _foot(hot),
        "warning": busy_both(link) or (link_care(link) if worn else ""),
        "tip": CEILING_TIPS.get(hot.ceiling_kind or "", ""),
    }


def _foot(way: Way) -> str:
    """Return how the ceiling is known, and the ratio to the theoretical rate."""
    kind = _kind(way)
    raw = "" if way.raw_peak is None else f"{ratio(way.raw_peak)} of raw"
    return ", ".join(part for part in (f"ceiling {kind}" if kind else "", raw) if part)


def _pair(way: Way) -> list[str]:
    """Return a direction as (name, mean rate, ceiling)."""
    if way.ceiling is None:
        return [WAYS[way.direction], rate(way.mean), ""]
    return [WAYS[way.direction], f"{rate(way.mean)} mean", f"of {rate(way.ceiling)}"]


def _blind(link: LinkNow) -> dict[str, Any]:
    """Return the tile of a GPU whose link is not measured."""
    _, tone, word = state_look(link.state)
    carried = [_pair(way) for way in (link.rx, link.tx) if way.mean is not None]
    return {
        "name": link.gpu.name,
        "word": "not judged",
        "kind": "fine",
        "figure": word if link.state != "ok" else "not measured",
        "unit": "",
        "what": link.gpu.model,
        "under": "",
        "pairs": carried,
        "lines": ["" if tone else link.reason],
        "foot": "",
        "warning": link.reason if tone else "",
        "tip": link.reason,
    }


def _heads(over: str) -> tuple[Head, ...]:
    """Return the columns of the table."""
    limit = formats.percent(BUSY_RATIO)
    return (
        Head("GPU"),
        Head("State"),
        Head("Direction"),
        Head("Rate, mean and peak", num=True),
        Head("Achievable", num=True),
        Head("Saturation, mean and peak", num=True),
        Head(f"Above {limit}", num=True),
        Head("Of raw, peak", num=True),
        Head(f"Above {limit} over {over}", num=True),
        Head("Link", wide=True),
        Head("Seen by", wide=True),
    )


def link_sheet(shown: Shown, minute: str, until_us: int, range_us: int) -> Sheet:
    """Return everything that is known of the links.

    Args:
        shown: Links and bridges, and what they did over the range.
        minute: How to call the minute they cover.
        until_us: Its end.
        range_us: Length of the range.
    """
    since_us = until_us - MINUTE_US
    query = f"SELECT *\nFROM copy_path({since_us}, {until_us})\nORDER BY device, direction"
    return Sheet(
        title="Links",
        aside=f"{minute}; H2D is to the GPU, D2H from it",
        table=_table(shown, formats.duration(range_us)),
        links=[Link("Open as SQL", "sql", query)],
    )


def _table(shown: Shown, over: str) -> Table:
    """Return the table: two rows per GPU that is measured, one for the others."""
    found: list[Row] = []
    for link in shown.links:
        if link.known or link.measured:
            found += [_row(link, way, shown.over) for way in (link.rx, link.tx)]
        else:
            found.append(_blind_row(link))
    for uplink in shown.uplinks:
        found += [_uplink_row(uplink, way) for way in (uplink.rx, uplink.tx)]
    return Table(_heads(over), tuple(found), "No GPU was read in this minute.")


def _row(link: LinkNow, way: Way, over: Over) -> Row:
    """Return one direction of a GPU."""
    shape, tone, word = state_look(link.state)
    long, peak = over.get((link.gpu.id, way.direction), (formats.DASH, None))
    return Row(
        (
            Cell(link.gpu.name, link.gpu.model if way.direction == "rx" else ""),
            Cell(word, "", shape, tone),
            *_figures(way),
            Cell(long, f"peak {ratio(peak)}" if peak is not None else ""),
            Cell(link_now(link.speed), link_care(link), tone="warn" if link.downtrained else ""),
            Cell(method(link), _trouble(link) or busy_both(link)),
        )
    )


def _trouble(link: LinkNow) -> str:
    """Return which readings are missing and why, or why none is to be trusted."""
    lost = link.readings - link.measured
    if lost:
        return f"{formats.count(lost, 'reading')} of {link.readings} dropped: {link.reason}"
    return link.reason if link.state != "ok" else ""


def _figures(way: Way) -> tuple[Cell, ...]:
    """Return the cells of one direction."""
    hot = "warn" if is_busy(way) else ""
    return (
        Cell(WAYS[way.direction], WAY_TIPS[way.direction]),
        Cell(rate(way.mean), rate(way.peak)),
        Cell(rate(way.ceiling) if way.ceiling else "unknown", _kind(way)),
        Cell(ratio(way.saturation_mean), ratio(way.saturation_peak), tone=hot),
        Cell(above(way), tone=hot),
        Cell(ratio(way.raw_peak, formats.DASH)),
    )


def _kind(way: Way) -> str:
    """Return how the ceiling of a direction is known."""
    return ceiling(way).removeprefix(rate(way.ceiling)).strip() if way.ceiling else ""


def _blind_row(link: LinkNow) -> Row:
    """Return a GPU whose link is not measured."""
    shape, tone, word = state_look(link.state)
    dash = Cell(formats.DASH)
    return Row(
        (
            Cell(link.gpu.name, link.gpu.model),
            Cell(word, "", shape, tone),
            Cell("both"),
            *(dash,) * 6,
            Cell(link_now(link.speed)),
            Cell(link.reason or "not measured"),
        ),
        quiet=True,
    )


def _uplink_row(uplink: UplinkNow, way: Way) -> Row:
    """Return one direction of a shared bridge."""
    below = "" if uplink.gpus is None else f"of {formats.count(uplink.gpus, 'GPU')}"
    shape, tone, word = state_look("ok" if way.mean is not None else "unsupported")
    return Row(
        (
            Cell("Uplink", f"{uplink.name} {below}" if way.direction == "rx" else ""),
            Cell(word, uplink.reason, shape, tone),
            *_figures(way),
            Cell(formats.DASH),
            Cell(link_now(uplink.speed)),
            Cell("sum of the GPUs below", "NVMe and NIC traffic is not in it"),
        )
    )
