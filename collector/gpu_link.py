"""Source gpu_link: what each GPU's host link carries, against what it can carry.

NVML is asked in a child process, shared with source gpu_state: it may hang or crash, and does so
there. rx is to the GPU (H2D, load), tx is from the GPU (D2H, store).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from collector.edges.nvml_process import NoAnswerError
from collector.gpu_driver import GpuDriver, let_go, refuse
from collector.gpu_pace import GpuPace
from collector.gpu_requests import GpuRequests
from collector.gpu_roster import Gpu, GpuRoster, group_reasons
from collector.link_ceilings import LinkCeilings, Rows
from collector.link_place import LinkPlaces
from collector.link_series import LinkSeries, Step
from collector.link_uplinks import uplink_rows
from collector.nvml.messages import GpuState, LinkSample, Probe
from collector.source import Machine, NoData, Reading, Row
from stallscope.clock import Instant
from stallscope.units import US_PER_SECOND

_EXPECTED = frozenset({GpuState.OK, GpuState.NOT_APPLICABLE})
_ABSENT = frozenset({GpuState.GPU_LOST, GpuState.HUNG})


def no_ceilings() -> Iterable[Row]:
    """Return no ceiling: nobody calibrated and nothing was learned."""
    return ()


class GpuLink:
    """Host links of the GPUs.

    Args:
        machine: What may be touched.
        driver: Answers.
        interval_us: Wanted pace.
        requests: What people ask for.
        ceilings: Returns the rows of table link_ceiling, oldest first.
    """

    name = "gpu_link"
    tables = ("gpu_link", "pcie_uplink", "link_ceiling", "probe_result")

    def __init__(
        self,
        machine: Machine,
        driver: GpuDriver,
        *,
        interval_us: int = US_PER_SECOND,
        requests: GpuRequests | None = None,
        ceilings: Rows = no_ceilings,
    ) -> None:
        self.deadline_us = 12 * US_PER_SECOND
        self._machine = machine
        self._driver = driver
        self._requests = requests or GpuRequests()
        self._pace = GpuPace(interval_us)
        self._roster = GpuRoster(machine)
        self._places = LinkPlaces(machine)
        self._ceilings = LinkCeilings(ceilings)
        self._series: dict[str, LinkSeries] = {}
        self._probed: dict[tuple[int, str], str] = {}

    @property
    def interval_us(self) -> int:
        """Wanted pace: faster during a burst, slower while the driver is slow."""
        return self._pace.interval_us(is_burst=self._is_burst())

    def read(self) -> Reading | NoData:
        """Return a row per GPU and MIG instance, and one per uplink that GPUs share.

        Returns:
            NoData where there is no NVIDIA driver, it is kept from us, or was to be let go of.

        Raises:
            SourceError: The driver failed.
        """
        now = self._machine.clock.now()
        released = let_go(self._requests, now, self._driver)
        if released is not None:
            return released
        try:
            answer = self._driver.ask_link()
            is_new = self._roster.update(self._driver.greet())
        except NoAnswerError as error:
            return refuse(error.trouble)
        # A first sample carries the cost of trying all ways of measuring, which comes once.
        costs = [sample.call_us for sample in answer.samples if sample.window_us is not None]
        self._pace.note(max(costs, default=0), is_burst=self._is_burst())
        self._places.refresh(now.mono_us)
        self._ceilings.refresh(now.mono_us)
        samples = {sample.uuid: sample for sample in answer.samples}
        pairs = [(gpu, self._sample_of(gpu, samples)) for gpu in self._roster.gpus()]
        probe_rows = self._probe_rows(pairs, now, is_new=is_new)
        return self._conclude(pairs, probe_rows)

    def close(self) -> None:
        """Let go of the driver."""
        self._driver.leave()

    def _conclude(
        self, pairs: Sequence[tuple[Gpu, LinkSample]], probe_rows: Sequence[Row]
    ) -> Reading:
        steps = [self._advance(gpu, sample) for gpu, sample in pairs]
        rows = {
            "gpu_link": [step.row for step in steps],
            "pcie_uplink": self._uplinks(pairs, steps),
            "link_ceiling": [row for step in steps for row in step.learned],
            "probe_result": probe_rows,
        }
        refused = sum(step.is_refused for step in steps)
        return Reading(rows, refused, self._reason(pairs, steps))

    def _is_burst(self) -> bool:
        return self._requests.is_burst(self._machine.clock.now().mono_us)

    def _sample_of(self, gpu: Gpu, samples: Mapping[str, LinkSample]) -> LinkSample:
        """Return a GPU's sample, or one that says why there is none."""
        sample = samples.get(gpu.facts.uuid)
        if sample is not None:
            return sample
        now = self._machine.clock.now()
        state, reason = gpu.explain_silence()
        return LinkSample(gpu.facts.uuid, state, reason, None, now.wall_us, now.mono_us)

    def _advance(self, gpu: Gpu, sample: LinkSample) -> Step:
        series = self._series.setdefault(sample.uuid, LinkSeries(self._ceilings))
        return series.advance(gpu, sample, self._places.find(gpu.facts.pci_address))

    def _uplinks(self, pairs: Sequence[tuple[Gpu, LinkSample]], steps: Sequence[Step]) -> list[Row]:
        rows = {
            gpu.facts.pci_address: step.row
            for (gpu, _), step in zip(pairs, steps, strict=True)
            if gpu.is_whole and gpu.facts.pci_address is not None
        }
        now = self._machine.clock.now()
        return uplink_rows(self._machine, self._places.shared(), rows, now)

    def _probe_rows(
        self, pairs: Sequence[tuple[Gpu, LinkSample]], now: Instant, *, is_new: bool
    ) -> list[Row]:
        """Return what probes found, where it is not what they found before."""
        rows: list[Row] = []
        for gpu, sample in pairs:
            for probe in sample.probes or (gpu.facts.probes if is_new else ()):
                key = (gpu.device, probe.method.value)
                if self._probed.get(key) != probe.outcome:
                    self._probed[key] = probe.outcome
                    rows.append(_probe_row(gpu, probe, now))
        return rows

    def _reason(self, pairs: Sequence[tuple[Gpu, LinkSample]], steps: Sequence[Step]) -> str:
        """Return what is missing, in words; empty when nothing is that could be there."""
        absent = {sample.uuid for _, sample in pairs if sample.state in _ABSENT}
        wrong = group_reasons(
            (sample.uuid, str(step.row["reason"]))
            for (_, sample), step in zip(pairs, steps, strict=True)
            if sample.state not in _EXPECTED or step.is_refused
        )
        pace = self._pace.reason(is_burst=self._is_burst())
        return "; ".join(filter(None, (self._roster.count_seen(absent), wrong, pace)))


def _probe_row(gpu: Gpu, probe: Probe, now: Instant) -> Row:
    return {
        "wall_us": now.wall_us,
        "probe": f"gpu_link.{probe.method.value}",
        "device": gpu.device,
        "outcome": probe.outcome,
        "cost_us": probe.cost_us,
    }
