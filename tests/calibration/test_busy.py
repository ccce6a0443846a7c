"""A GPU that is at work is left alone, and what it does is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.calibration.busy import find_work
from collector.nvml.messages import LinkAnswer, LinkSample, StateAnswer, StateSample
from tests.calibration.gpu_stand_ins import GPU, OTHER_GPU, link_sample, state_sample


def _work(
    proc: Path, state: StateSample | None = None, link: LinkSample | None = None
) -> dict[str, str]:
    states = StateAnswer(samples=() if state is None else (state,))
    links = LinkAnswer(samples=() if link is None else (link,))
    return dict(find_work([GPU, OTHER_GPU], states, links, proc))


def test_an_idle_gpu_does_nothing(tmp_path: Path) -> None:
    quiet = link_sample(rx=3e6, tx=2e6, utilisation=0.05)
    assert _work(tmp_path, state_sample(utilisation=0.02), quiet) == {}


def test_other_processes_are_named_and_we_are_not(tmp_path: Path) -> None:
    (tmp_path / "4321").mkdir()
    (tmp_path / "4321/comm").write_text("VLLM::EngineCor\n", encoding="utf-8")
    state = state_sample(4321, os.getpid(), 77)
    assert _work(tmp_path, state) == {
        GPU.uuid: "process 4321 (VLLM::EngineCor) uses it, process 77 uses it"
    }


@pytest.mark.parametrize("where", ["state", "link"])
def test_utilisation_is_taken_from_where_it_is_told(tmp_path: Path, where: str) -> None:
    state = state_sample(utilisation=0.93 if where == "state" else None)
    link = link_sample(utilisation=0.93 if where == "link" else None)
    assert _work(tmp_path, state, link) == {GPU.uuid: "it is 93% busy"}


def test_traffic_of_either_direction_is_told_by_its_name(tmp_path: Path) -> None:
    """1 % of gen 5 x16 is 0.63 GB/s."""
    assert _work(tmp_path, link=link_sample(rx=0.9e9, tx=0.2e9)) == {
        GPU.uuid: "0.90 GB/s H2D on its link"
    }
    assert _work(tmp_path, link=link_sample(rx=0.2e9, tx=12.3e9)) == {
        GPU.uuid: "12.30 GB/s D2H on its link"
    }


def test_each_gpu_answers_for_itself(tmp_path: Path) -> None:
    state = state_sample(5, uuid=OTHER_GPU.uuid)
    assert _work(tmp_path, state) == {OTHER_GPU.uuid: "process 5 uses it"}


def test_what_is_not_known_is_no_work(tmp_path: Path) -> None:
    assert _work(tmp_path) == {}
    assert _work(tmp_path, link=link_sample(None, None)) == {}
