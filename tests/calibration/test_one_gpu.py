"""From an idle GPU to figures one can believe, or to the reason why there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collector.calibration.one_gpu import Bench, Calibrated, Outcome, calibrate
from collector.calibration.rates import Rates
from collector.edges.nvml_process import NoAnswerError
from collector.link_capacity import LinkState
from collector.nvml.messages import GpuState, LinkAnswer, LinkSample, Trouble, TroubleKind
from tests.calibration.gpu_stand_ins import (
    GPU,
    RATES,
    StandInGpus,
    StandInTool,
    link_sample,
    state_sample,
)
from tests.storage.lake_rows import START_US, HandClock

IDLE, BUSY = link_sample(link=(1, 16)), link_sample(rx=55e9, tx=1e9)
SLOW = link_sample(rx=12.2e9, tx=1e9, link=(3, 16))


def _bench(
    gpus: StandInGpus, tool: StandInTool | None = None, *, force: bool = False
) -> tuple[Bench, list[float]]:
    pauses: list[float] = []
    bench = Bench(gpus, tool or StandInTool(), HandClock(), Path("/nowhere"), force, pauses.append)
    return bench, pauses


def _calibrate(*links: LinkSample, tool: StandInTool | None = None) -> Calibrated:
    bench, _ = _bench(StandInGpus([[IDLE], [IDLE], *([link] for link in links)]), tool)
    return calibrate(GPU, bench)


def test_an_idle_gpu_is_measured_with_its_link_under_load() -> None:
    done = _calibrate(IDLE, BUSY)
    assert (done.outcome, done.reason) == (Outcome.MEASURED, "")
    assert done.measured is not None
    assert (done.measured.rates, done.state, done.wall_us) == (RATES, LinkState(5, 16), START_US)


def test_a_busy_gpu_is_not_touched() -> None:
    gpus = StandInGpus([[BUSY]], [state_sample(4321, utilisation=0.93)])
    tool = StandInTool()
    bench, pauses = _bench(gpus, tool)
    done = calibrate(GPU, bench)
    assert (done.outcome, done.measured, tool.met) == (Outcome.BUSY, None, [])
    assert done.reason.startswith("process 4321 uses it, it is 93% busy, 55.00 GB/s H2D")
    assert pauses == [1.0]


def test_force_measures_a_busy_gpu_without_looking() -> None:
    gpus = StandInGpus([[BUSY]], [state_sample(4321)])
    bench, pauses = _bench(gpus, force=True)
    assert calibrate(GPU, bench).outcome is Outcome.MEASURED
    assert pauses == []


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (GpuState.NOT_APPLICABLE, Outcome.NOT_APPLICABLE),
        (GpuState.NOT_TRUSTWORTHY, Outcome.NOT_APPLICABLE),
        (GpuState.UNSUPPORTED, Outcome.NOT_APPLICABLE),
        (GpuState.GPU_LOST, Outcome.FAILED),
        (GpuState.NO_PERMISSION, Outcome.FAILED),
    ],
)
def test_a_link_that_means_nothing_is_skipped_with_its_reason(
    state: GpuState, outcome: Outcome
) -> None:
    gpu = replace(GPU, link_state=state, link_reason="NVLink-C2C carries it")
    tool = StandInTool()
    bench, _ = _bench(StandInGpus([[IDLE]]), tool)
    assert calibrate(gpu, bench) == Calibrated(gpu, outcome, "NVLink-C2C carries it")
    assert tool.met == []


def test_a_link_below_its_maximum_is_told_and_its_figures_hold_for_that_state() -> None:
    slow = StandInTool(Rates(rx=12.2e9, tx=12.9e9))
    done = _calibrate(SLOW, tool=slow)
    assert (done.outcome, done.state) == (Outcome.MEASURED, LinkState(3, 16))
    assert "under load the link was gen 3 x16 of gen 5 x16" in done.reason


def test_a_link_that_flapped_is_told() -> None:
    done = _calibrate(BUSY, BUSY, SLOW, BUSY)
    assert done.outcome is Outcome.MEASURED
    assert done.reason == "it was also seen at gen 3 x16 while copies ran"


def test_figures_of_another_gpu_are_refused() -> None:
    done = _calibrate(BUSY, tool=StandInTool(pci_address="0000:4c:00.0"))
    assert (done.outcome, done.measured) == (Outcome.FAILED, None)
    assert "measured the GPU at 0000:4c:00.0, not the one at 0000:3b:00.0" in done.reason
    assert _calibrate(BUSY, tool=StandInTool(pci_address="0000:3b:00.0")).reason == ""


def test_implausible_figures_are_refused() -> None:
    done = _calibrate(SLOW)
    assert (done.outcome, done.measured) == (Outcome.FAILED, None)
    assert "H2D came out as 55.60 GB/s, but a link of gen 3 x16" in done.reason


def test_a_tool_that_fails_is_heard() -> None:
    done = _calibrate(BUSY, tool=StandInTool(rates=None))
    assert (done.outcome, done.reason) == (Outcome.FAILED, "nothing came out")


def test_nvml_that_does_not_answer_fails_the_gpu_and_not_the_program() -> None:
    class Silent(StandInGpus):
        def ask_link(self) -> LinkAnswer:
            raise NoAnswerError(Trouble(TroubleKind.FAILED, "the NVML child failed: no answer"))

    bench, _ = _bench(Silent([[]]))
    done = calibrate(GPU, bench)
    assert (done.outcome, "no answer" in done.reason) == (Outcome.FAILED, True)
