"""The first line of Copy path: which link is full and how full, or why nobody can say."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard import formats
from dashboard.answers import STALE_AFTER_US, Banner, Run, stale_banner
from dashboard.copy_path_links import BUSY_RATIO, LinkNow, UplinkNow
from dashboard.copy_path_tiles import is_busy
from dashboard.copy_path_words import WAYS, above, ceiling, link_now, rate, ratio, state_look
from dashboard.sources import GOOD

_HEALTH = ("Data health", "data-health")


def banners(
    links: Sequence[LinkNow],
    uplinks: Sequence[UplinkNow],
    source: tuple[str, str] | None,
    minute: str,
    newest_us: int,
    now_us: int,
) -> list[Banner]:
    """Return the lines on top of the page, the most urgent first.

    Args:
        links: Links in the last minute, the hottest first.
        uplinks: Shared bridges.
        source: (state, reason) of source gpu_link, None when it has not reported.
        minute: How to call the minute.
        newest_us: Time of the newest measurement.
        now_us: The present.
    """
    answer = _answer(links, uplinks, source, minute)
    if now_us - newest_us <= STALE_AFTER_US:
        return [answer]
    return [stale_banner(newest_us, now_us), Banner("old", "Last known", answer.text)]


def _answer(
    links: Sequence[LinkNow],
    uplinks: Sequence[UplinkNow],
    source: tuple[str, str] | None,
    minute: str,
) -> Banner:
    """Return the answer line."""
    if not links:
        return _no_gpu(source)
    if not links[0].known:
        return _not_judged(links)
    hot = links[0].hot
    worn = [link for link in links if link.downtrained]
    full = [uplink for uplink in uplinks if is_busy(uplink.rx) or is_busy(uplink.tx)]
    worse = is_busy(hot) or bool(worn or full)
    word = "Link full" if is_busy(hot) else "Uplink full" if full else "Link degraded"
    return Banner(
        "worse" if worse else "fine",
        word if worse else "Links free",
        (
            *_hottest(links[0], minute),
            *(_full(uplink) for uplink in full),
            *(_worn(link) for link in worn),
            _unknown(links),
        ),
    )


def _hottest(link: LinkNow, minute: str) -> tuple[Run, ...]:
    """Return the hottest direction in words."""
    hot = link.hot
    longest = f"above {formats.percent(BUSY_RATIO)} {_for(above(hot))}"
    mean = f"Mean {rate(hot.mean)} of {ceiling(hot)}."
    return (
        {"b": f"{link.gpu.name} {WAYS[hot.direction]}"},
        " peaked at ",
        {"b": ratio(hot.saturation_peak)},
        f" of what its link can do in the {minute}, {longest}. {mean}",
    )


def _for(long: str) -> str:
    """Return how long something was so, as it follows an adjective."""
    return long if long in {"never", "not measured"} else f"for {long}"


def _full(uplink: UplinkNow) -> str:
    """Return a shared bridge that was full."""
    way = max(uplink.rx, uplink.tx, key=lambda one: one.above_share)
    return (
        f" The uplink {uplink.name} that {formats.count(uplink.gpus or 0, 'GPU')} share was above "
        f"{formats.percent(BUSY_RATIO)} {WAYS[way.direction]} for {above(way)}."
    )


def _worn(link: LinkNow) -> str:
    """Return a link that runs below its best under load."""
    return f" {link.gpu.name} runs at {link_now(link.speed)} under load."


def _unknown(links: Sequence[LinkNow]) -> str:
    """Return how many GPUs are not judged, empty when all are."""
    blind = [link.gpu.name for link in links if not link.known]
    return f" Not judged: {formats.joined(blind)}." if blind else ""


def _not_judged(links: Sequence[LinkNow]) -> Banner:
    """Return what to say when no link's saturation is known."""
    _, tone, word = state_look(links[0].state)
    same = all(link.state == links[0].state for link in links)
    names = formats.joined([link.gpu.name for link in links])
    reasons = list(dict.fromkeys(link.reason for link in links if link.reason))
    return Banner(
        "worse" if tone else "quiet",
        word.capitalize() if same and links[0].state != "ok" else "Not measured",
        (
            {"b": f"{names}: no saturation to judge."},
            f" {' '.join(reasons)}" if reasons else " Data health says why.",
        ),
        _HEALTH,
    )


def _no_gpu(source: tuple[str, str] | None) -> Banner:
    """Return what to say when no GPU was read at all."""
    if source is None:
        text = " Source gpu_link has not reported: this collector does not run it, or not yet."
    elif source[0] in GOOD:
        text = " Source gpu_link works, but no GPU gave a reading."
    else:
        text = f" {source[1] or source[0].replace('_', ' ')}"
    return Banner(
        "quiet",
        "No GPU read",
        ({"b": "No GPU’s link to the host is measured here."}, text),  # noqa: RUF001 - an apostrophe
        _HEALTH,
    )
