"""Every source, in one explicit list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collector.block_device import BlockDevice
from collector.clock_event import ClockEvent
from collector.engine_metrics import build as build_engine_metrics
from collector.engine_process import EngineProcess
from collector.host_pressure import HostPressure, no_cgroups
from collector.source import Machine, NoData, Reading, Source, SourceError
from collector.source_loop import describe_crash
from stallscope.settings import Settings
from stallscope.units import US_PER_MS, US_PER_SECOND


@dataclass(slots=True)
class Links:
    """What one source may ask another, so that none of them imports another.

    Attributes:
        engine_cgroups: Returns the cgroups in which engines run, as far as they are known by now.
    """

    engine_cgroups: Callable[[], Iterable[str]] = no_cgroups


Build = Callable[[Machine, Settings, Links], Source]


@dataclass(frozen=True, slots=True)
class Entry:
    """One source.

    Attributes:
        name: Its name, which is the name of its file too.
        build: Makes it; must not touch the machine yet.
    """

    name: str
    build: Build


def _build_engine_metrics(machine: Machine, settings: Settings, links: Links) -> Source:
    del links
    return build_engine_metrics(machine, settings)


def _build_block_device(machine: Machine, settings: Settings, links: Links) -> Source:
    del links
    return BlockDevice(
        machine,
        interval_us=settings.sources.block_interval_ms * US_PER_MS,
        include_virtual=settings.sources.include_virtual_disks,
    )


def _build_host_pressure(machine: Machine, settings: Settings, links: Links) -> Source:
    return HostPressure(
        machine,
        interval_us=settings.sources.host_interval_ms * US_PER_MS,
        cgroups=lambda: links.engine_cgroups(),  # noqa: PLW0108 - asked late: it may be set later
    )


def _build_engine_process(machine: Machine, settings: Settings, links: Links) -> Source:
    source = EngineProcess(machine, interval_us=settings.sources.process_interval_ms * US_PER_MS)
    links.engine_cgroups = source.engine_cgroups
    return source


def _build_clock_event(machine: Machine, settings: Settings, links: Links) -> Source:
    del settings, links
    return ClockEvent(machine)


SOURCES: tuple[Entry, ...] = (
    Entry("engine_metrics", _build_engine_metrics),
    Entry("engine_process", _build_engine_process),
    Entry("block_device", _build_block_device),
    Entry("host_pressure", _build_host_pressure),
    Entry("clock_event", _build_clock_event),
)
"""All sources, in the order in which people read them."""


class BrokenSource:
    """Stands in for a source that could not be made, so that its absence is seen.

    Args:
        name: Name of the source.
        reason: What went wrong.
    """

    tables: tuple[str, ...] = ()
    interval_us = 30 * US_PER_SECOND
    deadline_us = US_PER_SECOND

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def read(self) -> Reading | NoData:
        """Fail.

        Raises:
            SourceError: Always, with the reason.
        """
        raise SourceError(self._reason)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def build_source(entry: Entry, machine: Machine, settings: Settings, links: Links) -> Source:
    """Return the source of an entry; one that cannot be made fails at every read instead.

    Args:
        entry: Which source.
        machine: What it may touch.
        settings: All settings.
        links: Shared by all sources of one run.
    """
    try:
        return entry.build(machine, settings, links)
    except Exception as error:  # noqa: BLE001 - one broken source must not keep the others from work
        return BrokenSource(entry.name, describe_crash(error))
