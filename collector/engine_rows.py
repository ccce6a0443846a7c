"""Rows of engine_metrics and engine_histogram, and the events beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from collector.engine_histograms import Growth
from collector.engine_history import Scraped, Step
from collector.engine_runs import Run
from collector.source import Row
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

_LARGEST_U32 = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rows of one engine and scrape have in common.

    Attributes:
        engine: Its id.
        at: When the page was here.
        window_us: How far back growth reaches; None when nothing came before.
    """

    engine: int
    at: Instant
    window_us: int | None

    def stamp(self) -> dict[str, object]:
        """Return the columns that every row begins with."""
        # a window of 71 minutes or more does not fit its column; growth stays exact without it
        fits = self.window_us is not None and self.window_us <= _LARGEST_U32
        return {
            "wall_us": self.at.wall_us,
            "mono_us": self.at.mono_us,
            "engine": self.engine,
            "window_us": self.window_us if fits else None,
        }


def metrics_row(facts: Facts, scraped: Scraped, gauges: Mapping[str, float], step: Step) -> Row:
    """Return the row of engine_metrics for one engine and scrape."""
    row: dict[str, object] = {
        **facts.stamp(),
        "scrape_us": min(scraped.took_us, _LARGEST_U32),
        "restarted": step.restarted,
        "partial": step.partial,
        "rejected_lines": scraped.page.rejected,
        "duplicates": scraped.page.duplicates,
        "flags": _join(step.change.flags),
        **gauges,
    }
    for column, count in step.change.counters.items():
        row[f"{column}_total"] = count.total
        row[f"{column}_delta"] = count.delta
    return row


def histogram_rows(facts: Facts, histograms: Mapping[str, Growth]) -> list[Row]:
    """Return the rows of engine_histogram for one engine and scrape."""
    return [
        {
            **facts.stamp(),
            "family": family,
            "observations": growth.observations,
            "sum": growth.total,
            "bounds": list(growth.bounds),
            "counts": list(growth.counts),
            "flags": _join(growth.flags),
        }
        for family, growth in histograms.items()
        if max(growth.counts) <= _LARGEST_U32
    ]


def restart_event(facts: Facts, name: str, before: Run | None, now: Run) -> Row:
    """Return the change_event of an engine that began anew."""
    return {
        "wall_us": facts.at.wall_us,
        "mono_us": facts.at.mono_us,
        "engine": facts.engine,
        "kind": "engine_restarted",
        "before": _start_text(before),
        "after": _start_text(now),
        "text": f"engine {name} restarted: its counters began again at zero",
    }


def config_event(facts: Facts, name: str, difference: tuple[str, str]) -> Row:
    """Return the change_event of an engine that came back with other settings."""
    return {
        "wall_us": facts.at.wall_us,
        "mono_us": facts.at.mono_us,
        "engine": facts.engine,
        "kind": "engine_config",
        "before": difference[0],
        "after": difference[1],
        "text": f"engine {name} runs with other settings",
    }


def config_rows(facts: Facts, settings: Mapping[str, str]) -> list[Row]:
    """Return the rows of engine_config."""
    return [
        {"wall_us": facts.at.wall_us, "engine": facts.engine, "name": name, "value": value}
        for name, value in settings.items()
    ]


def _start_text(run: Run | None) -> str | None:
    """Return when a run began, in UTC; None where the page does not say."""
    if run is None or run.start_us is None:
        return None
    moment = datetime.fromtimestamp(run.start_us / US_PER_SECOND, UTC)
    return f"started {moment:%Y-%m-%d %H:%M:%S} UTC"


def _join(flags: Iterable[str]) -> str | None:
    return ",".join(sorted(flags)) or None
