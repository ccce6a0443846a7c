"""The load program of ``make gpu-check``: it does what it is told, and says what it did."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.hardware.load import Load, LoadError

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("library", "version"), [("torch", "torch 2.9.0+stand.in"), ("cupy", "cupy 14.2.0")]
)
def test_it_copies_and_decodes_as_told(library: str, version: str) -> None:
    with Load(sys.executable, {"PYTHONPATH": str(HERE / f"stand_in_{library}")}) as load:
        assert load.library == version
        few = load.copy("tx", size=4_096, count=100)
        assert (few.size_bytes, few.seconds > 0) == (409_600, True)
        load.begin("rx", seconds=0.05)
        much = load.carried()
        assert much.size_bytes % (64 << 20) == 0
        assert much.seconds >= 0.05
        load.begin_decoding(seconds=0.05)
        steps = load.steps_us()
        assert len(steps) > 1
        assert sum(steps) <= 1.2 * 50_000 + max(steps)


def test_a_load_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('no CUDA here')", encoding="utf-8")
    with (
        pytest.raises(LoadError, match="status 1: RuntimeError: no CUDA here"),
        Load(sys.executable, {"PYTHONPATH": str(tmp_path)}),
    ):
        pass
    with pytest.raises(LoadError, match="/nowhere/python cannot be started"):
        Load("/nowhere/python", {})


def test_a_load_that_ends_in_the_middle_says_why() -> None:
    with Load(sys.executable, {"PYTHONPATH": str(HERE / "stand_in_torch")}) as load:
        with pytest.raises(LoadError, match="status 1: KeyError: 'sideways'"):
            load.copy("sideways", size=4_096, count=1)
        with pytest.raises(LoadError, match="status 1"):
            load.begin("rx", seconds=1)
