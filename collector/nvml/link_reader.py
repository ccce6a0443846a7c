"""One GPU's link from poll to poll: the way in use, its cross-checks, link state around it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError, decides, is_lasting
from collector.edges.nvml_values import clean_generation, clean_percent, clean_width
from collector.nvml.blank_samples import blank_links
from collector.nvml.crosscheck import Rates, Suspicion, Verdict
from collector.nvml.messages import Flow, GpuFacts, GpuState, LinkSample, Method, Probe
from collector.nvml.probing import Found, Probing
from collector.nvml.raw_rate import raw_bytes_per_second
from collector.nvml.stamping import now
from collector.nvml.ways import Traffic, Way
from stallscope.units import US_PER_SECOND

_RETRY_US = 600 * US_PER_SECOND
_BROKEN = "source broken: it stood still while the driver's throughput showed traffic, twice"
_STALE = "the GPU computes, the link shows nothing, and no other way can tell"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was read around a reading of the traffic.

    Attributes:
        before: Generation and width before it.
        after: The same after it.
        utilisation_ratio: Share of time with a kernel running.
    """

    before: tuple[int | None, int | None] = (None, None)
    after: tuple[int | None, int | None] = (None, None)
    utilisation_ratio: float | None = None

    @property
    def generation(self) -> int | None:
        """The lower generation."""
        return _lowest(self.before[0], self.after[0])

    @property
    def width(self) -> int | None:
        """The lower width."""
        return _lowest(self.before[1], self.after[1])


class LinkReader:
    """Measures the link of one GPU.

    Args:
        device: The GPU.
        facts: What is known about it.
    """

    def __init__(self, device: Device, facts: GpuFacts) -> None:
        self._device = device
        self._facts = facts
        self._probing = Probing(device, raw_bytes_per_second(facts.max_generation, facts.max_width))
        self._banned: dict[Method, str] = {}
        self._retry_us = 0
        self._found = Found(None, (), GpuState.OK)
        self._suspicion = Suspicion()
        self._news: tuple[Probe, ...] = ()

    def describe(self) -> GpuFacts:
        """Return the facts with the ways that were tried, and what the lack of any means."""
        if self._facts.link_state is not GpuState.OK:
            return self._facts
        found = self._found
        return replace(
            self._facts, link_state=found.state, link_reason=found.reason, probes=found.probes
        )

    def probe(self) -> None:
        """Find the best way anew, but for those that turned out broken.

        Nothing is tried where the link means nothing.

        Raises:
            NvmlError: It concerns the whole GPU, or is a fault of ours.
        """
        if self._facts.link_state is not GpuState.OK:
            return
        self.close()
        self._found = self._probing.find(self._banned)
        self._suspicion = Suspicion()
        self._news = self._found.probes

    def read(self) -> LinkSample:
        """Return what was carried since the sample before.

        Raises:
            NvmlError: It concerns the whole GPU, or is a fault of ours.
        """
        if self._facts.link_state is not GpuState.OK:
            return blank_links((self._facts,), self._facts.link_state, self._facts.link_reason)[0]
        if self._banned and now().mono_us >= self._retry_us:
            self._banned = {}
            self.probe()
        way = self._found.way
        if way is None:
            return self._sample(self._found.state, self._found.reason, None, Traffic(now()))
        opinion = self._second_opinion() if self._suspicion.wants_opinion() else None
        before = self._link()
        try:
            traffic = way.read()
        except NvmlError as error:
            if decides(error.code):
                raise
            return self._fall_back(way, error)
        around = Surroundings(before, self._link(), self._utilisation())
        return self._judge(way, traffic, opinion, around)

    def forget(self) -> None:
        """Take the next reading for the first: the last one came too late to be of use."""
        if self._found.way is not None:
            self._found.way.forget()

    def close(self) -> None:
        """Let go of what the way holds."""
        if self._found.way is not None:
            self._found.way.close()
        self._found = Found(None, self._found.probes, self._found.state)

    def _judge(
        self, way: Way, traffic: Traffic, opinion: Rates | None, around: Surroundings
    ) -> LinkSample:
        verdict = self._weigh(way, traffic, opinion, around)
        if verdict is Verdict.BROKEN:
            return self._leave(way, traffic, around)
        if verdict is Verdict.STALE:
            return self._sample(GpuState.STALE, _STALE, way.method, _without_rates(traffic), around)
        return self._sample(GpuState.OK, traffic.reason, way.method, traffic, around)

    def _weigh(
        self, way: Way, traffic: Traffic, opinion: Rates | None, around: Surroundings
    ) -> Verdict:
        """Return whether the way can be believed.

        Throughput is the second opinion itself, and zero is no reason for suspicion there: it sees
        20 ms, and drivers up to 536 round it to whole MB.
        """
        if traffic.window_us is None or way.method is Method.THROUGHPUT:
            return Verdict.SOUND
        rates = Rates(traffic.rx.bytes_per_second, traffic.tx.bytes_per_second)
        return self._suspicion.note(rates, opinion, around.utilisation_ratio)

    def _leave(self, way: Way, traffic: Traffic, around: Surroundings) -> LinkSample:
        """Ban a way that is broken and find another one for the samples to come."""
        self._banned[way.method] = _BROKEN
        self._retry_us = now().mono_us + _RETRY_US
        self.probe()
        reason = f"{way.method}: {_BROKEN}"
        state = GpuState.SOURCE_BROKEN
        return self._sample(state, reason, way.method, _without_rates(traffic), around)

    def _fall_back(self, way: Way, error: NvmlError) -> LinkSample:
        """Return a sample without rates; find another way when this one may not work again."""
        if is_lasting(error.code) or error.code == Code.UNKNOWN:
            self.probe()
        else:
            way.forget()
        return self._sample(self._found.state, str(error), way.method, Traffic(now()))

    def _second_opinion(self) -> Rates:
        """Return what 20 ms each way of throughput show, nothing where that is not to be had."""
        try:
            return Rates(*self._device.pcie_throughput())
        except NvmlError as error:
            if decides(error.code):
                raise
            return Rates(None, None)

    def _link(self) -> tuple[int | None, int | None]:
        """Return current generation and width.

        Raises:
            NvmlError: The GPU cannot be asked at all: nothing is simpler than this.
        """
        try:
            generation = self._device.number("nvmlDeviceGetCurrPcieLinkGeneration")
        except NvmlError as error:
            if decides(error.code) or error.code == Code.UNKNOWN:
                raise
            generation = None
        width = self._device.optional_number("nvmlDeviceGetCurrPcieLinkWidth")
        return clean_generation(generation), clean_width(width)

    def _utilisation(self) -> float | None:
        rates = self._device.optional("nvmlDeviceGetUtilizationRates")
        return None if rates is None else clean_percent(rates.gpu)

    def _sample(
        self,
        state: GpuState,
        reason: str,
        method: Method | None,
        traffic: Traffic,
        around: Surroundings | None = None,
    ) -> LinkSample:
        around = around or Surroundings()
        news, self._news = self._news, ()
        return LinkSample(
            uuid=self._facts.uuid,
            state=state,
            reason=reason,
            method=method,
            wall_us=traffic.at.wall_us,
            mono_us=traffic.at.mono_us,
            window_us=traffic.window_us,
            rx=traffic.rx,
            tx=traffic.tx,
            generation=around.generation,
            width=around.width,
            link_changed=around.before != around.after,
            utilisation_ratio=around.utilisation_ratio,
            call_us=self._device.meter.take(),
            probes=news,
        )


def _without_rates(traffic: Traffic) -> Traffic:
    return replace(traffic, rx=Flow(), tx=Flow())


def _lowest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)
