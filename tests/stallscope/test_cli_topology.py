"""`stallscope topology`: the tree, what it shows, and the exit status it means."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stallscope import cli
from stallscope.commands import topology
from stallscope.commands.nvidia_smi import NvidiaSmi, parse_gpus
from tests.collector.fake_buses import (
    put_cpuinfo,
    put_device,
    put_nodes,
    put_placement,
    put_switched_pair,
)
from tests.collector.fake_machine import FakeMachine

_GPUS = "0, GPU-a, 00000000:43:00.0\n1, GPU-b, 00000000:44:00.0\n2, GPU-c, 00000000:C1:00.0\n"
_MATRIX = (
    "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tPIX\tSYS\t0-15\t0\n"
    "GPU1\tPIX\t X \tSYS\t0-15\t0\n"
    "GPU2\tSYS\tSYS\t X \t16-31\t1\n"
)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    _say(monkeypatch, None)
    return FakeMachine(tmp_path)


def _say(monkeypatch: pytest.MonkeyPatch, said: NvidiaSmi | None) -> None:
    monkeypatch.setattr(topology, "ask_nvidia_smi", lambda: said)


def _run(fake: FakeMachine, *words: str) -> int:
    roots = ("--set", f"host.proc={fake.proc}", "--set", f"host.sys={fake.sys}")
    return cli.main(["topology", *roots, *words])


def _put_engine(fake: FakeMachine, pid: int, cpus: str) -> None:
    put_placement(fake, pid, cpus)
    fake.write(f"proc/{pid}/cmdline", "VLLM::Worker_TP\0")
    numbers = " ".join(["0"] * 17)
    fake.write(f"proc/{pid}/stat", f"{pid} (VLLM::Worker_TP) S 1 {numbers} 777 0\n")


def test_a_tree_shows_parents_before_children_and_then_the_findings(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_switched_pair(fake)
    _put_engine(fake, 4801, "16-31")
    _say(monkeypatch, NvidiaSmi(parse_gpus(_GPUS, "GPU-a, 4801\n"), _MATRIX))
    assert _run(fake) == 1
    out = capsys.readouterr().out
    assert out.isascii()
    tree, said = out.split("\n\n")
    lines = [re.split(r"  +", line.strip()) for line in tree.split("\n")[2:]]
    depths = [len(line) - len(line.lstrip()) for line in tree.split("\n")[2:]]
    assert [line[0] for line in lines] == [
        "node0",
        "root 0000:40:01.0",
        "bridge 0000:41:00.0",
        "bridge 0000:42:08.0",
        "GPU 0 0000:43:00.0",
        "pid 4801",
        "bridge 0000:42:10.0",
        "GPU 1 0000:44:00.0",
        "bridge 0000:42:14.0",
        "nvme 0000:45:00.0",
        "node1",
        "root 0000:c0:03.1",
        "GPU 2 0000:c1:00.0",
    ]
    assert depths == [0, 2, 4, 6, 8, 10, 6, 8, 6, 8, 0, 2, 4]
    assert lines[4] == ["GPU 0 0000:43:00.0", "GPU-a", "x16 gen4", "x16 gen4", "0", "-", "-"]
    assert lines[5] == ["pid 4801", "VLLM::Worker_TP", "-", "-", "1", "16-31", "0-1"]
    assert lines[12][2:4] == ["x16 gen1", "x16 gen4"]
    assert said == (
        "warning VLLM::Worker_TP (pid 4801) runs on node 1, but uses GPU 0 on node 0: its copies "
        "cross from node to node\n"
        "warning GPU 0, GPU 1 and nvme1 share one x16 gen4 uplink (0000:41:00.0)\n"
    )


def test_a_machine_that_is_wired_well_is_fine(
    fake: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    put_cpuinfo(fake)
    put_nodes(fake, "0-3")
    put_device(fake, "pci0000:40/0000:40:01.0", "bridge")
    put_device(fake, "pci0000:40/0000:40:01.0/0000:41:00.0", "gpu")
    assert _run(fake) == 0
    assert capsys.readouterr().out.endswith("\n\nNothing stands out.\n")


def test_what_another_says_is_compared(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_switched_pair(fake)
    matrix = _MATRIX.replace("PIX", "NODE")
    _say(monkeypatch, NvidiaSmi(parse_gpus(_GPUS, ""), matrix))
    assert _run(fake, "--json") == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(one["rule"], one["subject"]) for one in found] == [
        ("shared_uplink", "0000:41:00.0"),
        ("cross_check", "0000:43:00.0 0000:44:00.0"),
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (NvidiaSmi(problems=("nvidia-smi ended with 9: no driver",)), "ended with 9: no driver"),
        (NvidiaSmi(), "it printed no table"),
        (NvidiaSmi(matrix="GPU0\n GPU0 X\n"), "no column CPU Affinity"),
    ],
    ids=["failed", "silent", "other"],
)
def test_a_second_opinion_that_fails_is_said_and_no_warning(
    fake: FakeMachine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: NvidiaSmi,
    reason: str,
) -> None:
    put_cpuinfo(fake)
    put_device(fake, "pci0000:40/0000:41:00.0", "gpu")
    _say(monkeypatch, said)
    assert _run(fake) == 0
    assert reason in capsys.readouterr().out


def test_as_json_rows_are_those_of_the_table(
    fake: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    put_switched_pair(fake)
    put_cpuinfo(fake, guest=True)
    assert _run(fake, "--json") == 0, "a guest is no warning"
    told = json.loads(capsys.readouterr().out)
    assert told["virtualised"] is True
    assert told["missing"] is None
    assert len(told["nodes"]) == 2 + 10
    assert {node["kind"] for node in told["nodes"]} == {"numa", "root", "bridge", "gpu", "nvme"}
    assert [finding["rule"] for finding in told["findings"]] == ["virtualised"]


def test_what_is_missing_is_said(fake: FakeMachine, capsys: pytest.CaptureFixture[str]) -> None:
    put_nodes(fake, "0-3", "")
    assert _run(fake) == 0
    out = capsys.readouterr().out
    assert re.search(r"^node1 .* none ", out, re.MULTILINE), "a node of memory alone"
    assert "part    no PCI devices in /sys; cpuinfo unreadable" in out


def test_a_machine_that_shows_nothing_could_not_be_looked_at(
    fake: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(fake) == 2
    assert "mount the host's /sys read-only and set host.sys" in capsys.readouterr().err


def test_a_long_list_of_cpus_does_not_break_the_table(
    fake: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    put_nodes(fake, ",".join(str(number) for number in range(0, 128, 2)))
    _run(fake)
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) < 100


def test_it_writes_nothing(fake: FakeMachine, tmp_path: Path) -> None:
    put_switched_pair(fake)
    _run(fake, "--lake", str(tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()
