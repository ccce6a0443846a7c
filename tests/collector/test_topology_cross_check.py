from __future__ import annotations

from pathlib import Path

import pytest

from collector.topo_matrix import TopoMatrix, parse_topo_matrix
from collector.topology_cross_check import find_disagreements
from collector.topology_findings import Finding, Severity
from collector.topology_look import Knowledge, KnownGpu, Look, read_look
from tests.collector.fake_buses import put_cpuinfo, put_device, put_switched_pair
from tests.collector.fake_machine import FakeMachine

_GPUS = {
    "0000:43:00.0": KnownGpu("GPU-a", 0),
    "0000:44:00.0": KnownGpu("GPU-b", 1),
    "0000:c1:00.0": KnownGpu("GPU-c", 2),
}


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    machine = FakeMachine(tmp_path)
    put_switched_pair(machine)
    place = "pci0000:c0/0000:c0:03.2"
    put_device(machine, place, "bridge", node=1)
    put_device(machine, f"{place}/0000:c2:00.0", "nic", node=1)
    machine.write(f"sys/devices/{place}/0000:c2:00.0/infiniband/mlx5_0/node_guid", "0\n")
    return machine


def _look(fake: FakeMachine) -> Look:
    return read_look(fake.proc, fake.sys, Knowledge((), _GPUS))


def _matrix(
    pair: str = "PIX", across: str = "SYS", card: str = "NODE", node: int = 1
) -> TopoMatrix:
    """Return what nvidia-smi prints of three GPUs and a card."""
    return parse_topo_matrix(
        "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        f"GPU0\t X \t{pair}\t{across}\tSYS\t0-15\t0\t\tN/A\n"
        f"GPU1\t{pair}\t X \tSYS\tSYS\t0-15\t0\t\tN/A\n"
        f"GPU2\t{across}\tSYS\t X \t{card}\t16-31\t{node}\t\tN/A\n"
        f"NIC0\tSYS\tSYS\t{card}\t X \t\t\t\n"
        "\n  NIC0: mlx5_0\n"
    )


@pytest.mark.parametrize("pair", ["PIX", "PXB", "NV12", "QQQ"])
def test_agreement_is_no_finding(fake: FakeMachine, pair: str) -> None:
    """How many bridges is not compared, and NVLink says nothing about buses."""
    assert find_disagreements(_look(fake), _matrix(pair)) == ()


def test_a_pair_below_one_switch_that_nvidia_smi_tears_apart_is_a_warning(
    fake: FakeMachine,
) -> None:
    assert find_disagreements(_look(fake), _matrix(pair="SYS")) == (
        Finding(
            "cross_check",
            "0000:43:00.0 0000:44:00.0",
            Severity.WARNING,
            "nvidia-smi calls GPU 0 to GPU 1 SYS, sysfs shows them below a bridge they share",
        ),
    )


def test_a_pair_apart_that_nvidia_smi_joins_is_a_warning(fake: FakeMachine) -> None:
    (finding,) = find_disagreements(_look(fake), _matrix(across="PXB"))
    assert finding.subject == "0000:43:00.0 0000:c1:00.0"
    assert finding.text.endswith("PXB, sysfs shows them below no bridge in common")


def test_a_card_is_found_by_its_name_in_the_legend(fake: FakeMachine) -> None:
    (finding,) = find_disagreements(_look(fake), _matrix(card="PIX"))
    assert finding.subject == "0000:c1:00.0 0000:c2:00.0"
    assert "GPU 2 to mlx5_0 PIX" in finding.text


def test_another_numa_node_is_a_warning(fake: FakeMachine) -> None:
    (finding,) = find_disagreements(_look(fake), _matrix(node=3))
    assert (finding.subject, finding.severity) == ("0000:c1:00.0", Severity.WARNING)
    assert finding.text == "nvidia-smi puts GPU 2 on NUMA node 3, sysfs on node 1"


def test_an_incomplete_table_is_compared_with_nothing(fake: FakeMachine) -> None:
    cut = parse_topo_matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-15\n")
    (finding,) = find_disagreements(_look(fake), cut)
    assert (finding.subject, finding.severity) == ("nvidia-smi", Severity.INFO)
    assert finding.text == "nvidia-smi topo -m could not be compared: 1 rows for 2 columns"


def test_gpus_that_sysfs_does_not_show_are_left_out(fake: FakeMachine) -> None:
    gpus = {"0000:99:00.0": KnownGpu("GPU-x", 0), "0000:44:00.0": KnownGpu("GPU-b", 1)}
    look = read_look(fake.proc, fake.sys, Knowledge((), gpus))
    assert find_disagreements(look, _matrix(pair="SYS")) == ()


def test_on_a_guest_both_sides_are_fiction(fake: FakeMachine) -> None:
    put_cpuinfo(fake, guest=True)
    assert find_disagreements(_look(fake), _matrix(pair="SYS", node=3)) == ()
