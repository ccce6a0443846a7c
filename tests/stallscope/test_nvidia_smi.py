"""What nvidia-smi says, and what it says when it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.topology_look import KnownGpu
from stallscope.commands import nvidia_smi
from stallscope.commands.nvidia_smi import ask_nvidia_smi, parse_gpus

_ANSWERS = """\
case "$*" in
  --query-gpu=*) echo '0, GPU-a, 00000000:3B:00.0'; echo '1, GPU-b, 00000000:AF:00.0' ;;
  --query-compute-apps=*) echo 'GPU-b, 4801'; echo 'GPU-b, 4802' ;;
  'topo -m') echo "table in $LC_ALL" ;;
  *) exit 7 ;;
esac"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def _put(path: Path, script: str) -> None:
    program = path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_gpus_processes_and_the_table_are_asked_for(path: Path) -> None:
    _put(path, _ANSWERS)
    said = ask_nvidia_smi()
    assert said is not None
    assert said.gpus == {
        "0000:3b:00.0": KnownGpu("GPU-a", 0),
        "0000:af:00.0": KnownGpu("GPU-b", 1, frozenset({4801, 4802})),
    }
    assert (said.matrix, said.problems) == ("table in C\n", ())


def test_where_it_is_not_installed_nothing_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(path))
    assert ask_nvidia_smi() is None


def test_what_it_says_when_it_fails_is_kept_once(path: Path) -> None:
    _put(path, 'echo "NVIDIA-SMI has failed because\n it could not" >&2; exit 9')
    said = ask_nvidia_smi()
    assert said is not None
    assert (said.gpus, said.matrix) == ({}, "")
    assert said.problems == ("nvidia-smi ended with 9: NVIDIA-SMI has failed because it could not",)


def test_one_refused_question_costs_only_its_answer(path: Path) -> None:
    _put(path, _ANSWERS.replace("echo 'GPU-b, 4801'", "exit 3"))
    said = ask_nvidia_smi()
    assert said is not None
    assert {gpu.uuid for gpu in said.gpus.values()} == {"GPU-a", "GPU-b"}
    assert said.matrix
    assert said.problems == ("nvidia-smi ended with 3: without a word",)


def test_one_that_hangs_is_ended_and_not_asked_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "_LIMIT_S", 0.3)
    asked = tmp_path / "asked"
    asked.touch()
    _put(path, f"echo asked >> {asked}; exec sleep 60")
    said = ask_nvidia_smi()
    assert said is not None
    assert "did not end" in said.problems[0]
    assert asked.read_text(encoding="utf-8").count("asked") <= 1


def test_a_program_that_cannot_be_started_is_a_problem_too(path: Path) -> None:
    (path / "nvidia-smi").write_bytes(b"\x7fELF broken")
    (path / "nvidia-smi").chmod(0o755)
    said = ask_nvidia_smi()
    assert said is not None
    assert "cannot be started" in said.problems[0]


def test_rows_that_do_not_fit_are_left_out() -> None:
    gpus = "[N/A], GPU-a, 00000000:3B:00.0\n1, GPU-b, [N/A]\n2, GPU-c\n3, GPU-d, 00000000:5E:00.0\n"
    assert parse_gpus(gpus, "GPU-d, [N/A]\nGPU-d, 7, 8\n\nGPU-d, 9\n") == {
        "0000:5e:00.0": KnownGpu("GPU-d", 3, frozenset({9}))
    }


@given(st.text(), st.text())
def test_no_text_breaks_the_parser(gpus: str, processes: str) -> None:
    assert isinstance(parse_gpus(gpus, processes), dict)
