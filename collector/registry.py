"""Every source, in one explicit list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.block_device import BlockDevice
from collector.clock_event import ClockEvent
from collector.edges.nvml_process import NvmlProcess
from collector.engine_metrics import build as build_engine_metrics
from collector.engine_process import EngineProcess
from collector.engine_scrape_pace import no_tapped_engines
from collector.engine_steps import EngineSteps
from collector.gpu_link import GpuLink, no_ceilings
from collector.gpu_requests import GpuRequests
from collector.gpu_state import GpuStateSource
from collector.host_pressure import HostPressure, no_cgroups
from collector.known_engine import KnownEngine, no_engines
from collector.link_ceilings import Rows
from collector.nvml.messages import GpuFacts
from collector.otlp_traces import OtlpTraces
from collector.request_ids import RequestIds
from collector.source import Machine, Names, NoData, Reading, Source, SourceError
from collector.source_loop import describe_crash
from collector.tap_hub import TapOptions, Taps, build_taps
from collector.token_gaps import TokenGaps
from collector.topology import Topology, no_gpu_processes, no_gpus, no_processes
from stallscope.clock import Clock
from stallscope.settings import Settings
from stallscope.units import US_PER_MS, US_PER_SECOND


@dataclass(slots=True)
class Links:
    """What one source may ask another, so that none of them imports another.

    Attributes:
        engines: Returns the engines whose metrics pages are read.
        engine_cgroups: Returns the cgroups in which engines run, as far as they are known by now.
        engine_processes: Returns the engine processes that are known by now, each with the name of
            its main thread.
        gpus: Returns what the driver says of the GPUs, as far as it was asked by now.
        gpu_processes: Returns the processes that compute on each GPU, by its UUID.
        ceilings: Returns the rows of table link_ceiling, whoever wrote them.
        gpu_requests: What people ask of the GPU sources.
        nvml: The child that all GPU sources ask; made by the first of them.
        request_ids: Ids of requests by the engine's ids of them; made by the first who tells.
        tapped_engines: Returns the engines whose steps are told by a tap right now.
        taps: What all sources that read taps share; made by the first of them.
        looks_only: One reading only: what a running collector may hold is looked at, not taken.
    """

    engines: Callable[[], Sequence[KnownEngine]] = no_engines
    engine_cgroups: Callable[[], Iterable[str]] = no_cgroups
    engine_processes: Callable[[], Sequence[tuple[int, str]]] = no_processes
    gpus: Callable[[], Iterable[GpuFacts]] = no_gpus
    gpu_processes: Callable[[], Mapping[str, Sequence[int]]] = no_gpu_processes
    ceilings: Rows = no_ceilings
    gpu_requests: GpuRequests = field(default_factory=GpuRequests)
    nvml: NvmlProcess | None = None
    request_ids: RequestIds | None = None
    tapped_engines: Callable[[], frozenset[int]] = no_tapped_engines
    taps: Taps | None = None
    looks_only: bool = False

    def join_nvml(self, clock: Clock) -> NvmlProcess:
        """Return the NVML child for one more source, which leaves it when it is closed."""
        if self.nvml is None:
            self.nvml = NvmlProcess(clock=clock)
        return self.nvml.join()

    def join_request_ids(self, names: Names, settings: Settings) -> RequestIds:
        """Return the ids of requests for one more source that tells of them."""
        if self.request_ids is None:
            self.request_ids = RequestIds(names, store_ids=settings.taps.store_request_ids)
        return self.request_ids

    def join_taps(self, machine: Machine, settings: Settings) -> Taps:
        """Return what sources that read taps share, for one more of them."""
        if self.taps is None:
            wanted = settings.taps
            self.taps = build_taps(
                machine,
                TapOptions(
                    socket=wanted.socket if wanted.enabled else None,
                    group=wanted.group,
                    store_request_ids=wanted.store_request_ids,
                    looks_only=self.looks_only,
                ),
                engines=lambda: self.engines(),  # noqa: PLW0108 - asked late: it may be set later
                note_request=self.join_request_ids(machine.names, settings).note,
            )
            self.tapped_engines = self.taps.engines_told_of
        return self.taps


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
    # Asked late: it may be set later.
    tapped = lambda: links.tapped_engines()  # noqa: E731,PLW0108 - as the line above says
    source = build_engine_metrics(machine, settings, tapped)
    links.engines = source.engines
    return source


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
    links.engine_processes = source.engine_processes
    return source


def _build_gpu_link(machine: Machine, settings: Settings, links: Links) -> Source:
    return GpuLink(
        machine,
        links.join_nvml(machine.clock),
        interval_us=settings.sources.gpu_interval_ms * US_PER_MS,
        requests=links.gpu_requests,
        ceilings=links.ceilings,
    )


def _build_gpu_state(machine: Machine, settings: Settings, links: Links) -> Source:
    source = GpuStateSource(
        machine,
        links.join_nvml(machine.clock),
        interval_us=settings.sources.gpu_interval_ms * US_PER_MS,
        requests=links.gpu_requests,
    )
    links.gpus, links.gpu_processes = source.gpus, source.gpu_processes
    return source


def _build_topology(machine: Machine, settings: Settings, links: Links) -> Source:
    del settings
    return Topology(
        machine,
        # Asked late: what they stand for may be set later.
        engine_processes=lambda: links.engine_processes(),  # noqa: PLW0108 - as the line above says
        gpus=lambda: links.gpus(),  # noqa: PLW0108 - the same
        gpu_processes=lambda: links.gpu_processes(),  # noqa: PLW0108 - the same
    )


def _build_otlp_traces(machine: Machine, settings: Settings, links: Links) -> Source:
    return OtlpTraces(
        machine,
        settings.otlp,
        token=settings.collect.token,
        request_ids=links.join_request_ids(machine.names, settings),
        engines=lambda: links.engines(),  # noqa: PLW0108 - asked late: it may be set later
    )


def _build_engine_steps(machine: Machine, settings: Settings, links: Links) -> Source:
    return EngineSteps(links.join_taps(machine, settings))


def _build_token_gaps(machine: Machine, settings: Settings, links: Links) -> Source:
    return TokenGaps(links.join_taps(machine, settings))


def _build_clock_event(machine: Machine, settings: Settings, links: Links) -> Source:
    del settings, links
    return ClockEvent(machine)


SOURCES: tuple[Entry, ...] = (
    Entry("engine_metrics", _build_engine_metrics),
    Entry("engine_process", _build_engine_process),
    Entry("engine_steps", _build_engine_steps),
    Entry("token_gaps", _build_token_gaps),
    Entry("otlp_traces", _build_otlp_traces),
    Entry("gpu_link", _build_gpu_link),
    Entry("gpu_state", _build_gpu_state),
    Entry("topology", _build_topology),
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
