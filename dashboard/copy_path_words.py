"""How figures of the copy path are spelled: rates, links, methods, ceilings and states."""

from __future__ import annotations

from dashboard import formats
from dashboard.copy_path_links import LinkNow, Speed, Way
from stallscope.units import US_PER_SECOND

WAYS = {"rx": "H2D", "tx": "D2H"}
WAY_TIPS = {"rx": "to the GPU: loads", "tx": "from the GPU: stores"}
LEVELS = {"gap": "tokens", "step": "exact steps", "scrape": "scraped sum and count"}
CEILINGS = {
    "default": "assumed",
    "learned": "highest held so far",
    "calibrated": "calibrated",
}
CEILING_TIPS = {
    "default": "What links of this generation usually achieve. stallscope calibrate measures it.",
    "learned": "The highest rate that this link has held so far. stallscope calibrate measures it.",
    "calibrated": "Measured on this host by stallscope calibrate.",
}
STATES = {
    "ok": ("dot", "ok", "measured"),
    "unsupported": ("barred", "", "unsupported"),
    "no_permission": ("triangle", "warn", "no permission"),
    "gpu_lost": ("cross", "bad", "GPU lost"),
    "hung": ("cross", "bad", "no answer"),
    "stale": ("cross", "warn", "stale"),
    "source_broken": ("cross", "warn", "source broken"),
    "not_applicable": ("ring", "", "not applicable"),
    "not_trustworthy": ("triangle", "warn", "not trustworthy"),
    "no_reading": ("cross", "warn", "no reading"),
}
"""Shape, tone and word by state."""
_METHODS = {
    "gpm_cumulative": "byte counters (GPM)",
    "gpm_rate": "mean rate (GPM)",
    "field_counter": "byte counters",
    "throughput": "20 ms samples",
}
_WHOLE = 0.995


def state_look(state: str) -> tuple[str, str, str]:
    """Return shape, tone and word of a state; an unknown one is shown as it is."""
    return STATES.get(state, ("cross", "warn", state.replace("_", " ")))


def rate(bytes_per_second: float | None) -> str:
    """Return a rate in GB/s, in smaller units below."""
    if bytes_per_second is None:
        return "not measured"
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6)):
        if bytes_per_second >= size:
            return f"{formats.number(bytes_per_second / size)}{formats.NBSP}{unit}"
    return f"{formats.number(bytes_per_second / 1e3)}{formats.NBSP}kB/s"


def ratio(value: float | None, word: str = "not measured") -> str:
    """Return a ratio in whole per cent, tenths below 10 %."""
    if value is None:
        return word
    return formats.percent(round(value, 2 if value >= 0.1 else 3))  # noqa: PLR2004 - ten per cent


def ceiling(way: Way) -> str:
    """Return what a direction can carry, and how that is known."""
    if way.ceiling is None:
        return "unknown"
    kind = CEILINGS.get(way.ceiling_kind or "", "")
    return f"{rate(way.ceiling)} {kind}".strip()


def above(way: Way) -> str:
    """Return how long a direction was busy."""
    if way.above_us is None or not way.measured_us:
        return "not measured"
    if not way.above_us:
        return "never"
    return f"{formats.duration(way.above_us)} of {formats.duration(way.measured_us)}"


def link_now(speed: Speed) -> str:
    """Return the link now and at most: ``gen 4 x16 of gen 4 x16``."""
    now = _link(speed.generation, speed.width)
    best = _link(speed.max_generation, speed.max_width)
    if not now:
        return "unknown"
    return f"{now} of {best}" if best else now


def _link(generation: int | None, width: int | None) -> str:
    """Return a generation and a width, or what is known of them."""
    parts = [
        f"gen{formats.NBSP}{generation}" if generation else "",
        f"x{width}" if width else "",
    ]
    return formats.NBSP.join(part for part in parts if part)


def at_rest(link: LinkNow) -> bool:
    """Return whether a link is slow because it is idle."""
    speed = link.speed
    return link.downtrained is None and (speed.generation or 0) < (speed.max_generation or 0)


def link_care(link: LinkNow) -> str:
    """Return what is wrong with a link, or why a slow one is not; empty when there is nothing."""
    if link.downtrained:
        return f"below its best for {ratio(link.downtrained)} of the loaded time"
    return "idle: at rest" if at_rest(link) else ""


def method(link: LinkNow) -> str:
    """Return how a link is measured and how much of the time that sees."""
    if link.method is None:
        return "not measured"
    name = _METHODS.get(link.method, link.method)
    return f"{name}, {seen(link.coverage)}" if link.measured else name


def seen(coverage: float | None) -> str:
    """Return how much of the time was seen: ``20 ms of each second``."""
    if coverage is None:
        return "coverage unknown"
    if coverage >= _WHOLE:
        return "all of the time"
    if coverage >= 0.1:  # noqa: PLR2004 - as a share it reads better
        return f"{ratio(coverage)} of the time"
    return f"{formats.number(coverage * US_PER_SECOND / 1e3)}{formats.NBSP}ms of each second"


def busy_both(link: LinkNow) -> str:
    """Return how long both directions were busy; empty when they were not."""
    if not link.both_busy:
        return ""
    return f"both directions busy for {ratio(link.both_busy)} of the time: each can do less then"
