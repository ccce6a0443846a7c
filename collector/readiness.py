"""Whether readers see what is collected: asked of the writer, then of the catalog itself."""

from __future__ import annotations

from stallscope.clock import Clock
from stallscope.storage.catalog_probe import newest_row_us
from stallscope.storage.writer import Writer
from stallscope.units import US_PER_SECOND

_FRESH_US = 10 * US_PER_SECOND


def why_not_ready(writer: Writer, clock: Clock) -> str:
    """Return why the lake cannot be relied on right now, or an empty string when it can.

    The collector writes a row about itself every second, so a reader who finds none of the last ten
    seconds is shown stale data whatever else works.
    """
    now = clock.now()
    health = writer.health()
    if health.state == "failed":
        return health.reason
    quiet_us = now.mono_us - health.sealed_mono_us
    if quiet_us > _FRESH_US:
        return f"nothing was sealed for {quiet_us // US_PER_SECOND} s"
    try:
        newest_us = newest_row_us(writer.layout.catalog, "source_health", now.wall_us - _FRESH_US)
    except Exception as error:  # noqa: BLE001 - whatever a reader would meet is the answer
        return f"the catalog cannot be read: {error}"
    return "" if newest_us is not None else "the catalog shows no row of the last 10 s"
