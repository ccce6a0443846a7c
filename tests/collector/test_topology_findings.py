from __future__ import annotations

from pathlib import Path

import pytest

from collector.topology_findings import Finding, LinkShape, Severity, find_findings
from collector.topology_look import Knowledge, KnownGpu, Look, read_look
from tests.collector.fake_buses import (
    put_cpuinfo,
    put_device,
    put_nodes,
    put_placement,
    put_switched_pair,
    write_device,
)
from tests.collector.fake_machine import FakeMachine

_GPUS = {
    "0000:43:00.0": KnownGpu("GPU-a", 0, frozenset({4801})),
    "0000:44:00.0": KnownGpu("GPU-b", 1, frozenset({4802})),
    "0000:c1:00.0": KnownGpu("GPU-c", 2),
}


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    machine = FakeMachine(tmp_path)
    put_cpuinfo(machine)
    return machine


def _look(fake: FakeMachine, knowledge: Knowledge | None = None) -> Look:
    return read_look(fake.proc, fake.sys, knowledge or Knowledge())


def _findings(fake: FakeMachine, knowledge: Knowledge | None = None) -> dict[str, Finding]:
    """Return the findings by rule; each rule must have found one thing at most."""
    found = find_findings(_look(fake, knowledge))
    by_rule = {finding.rule: finding for finding in found}
    assert len(by_rule) == len(found), found
    return by_rule


def test_gpus_and_a_drive_below_a_switch_share_its_uplink(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    assert _findings(fake, Knowledge((), _GPUS)) == {
        "shared_uplink": Finding(
            "shared_uplink",
            "0000:41:00.0",
            Severity.WARNING,
            "GPU 0, GPU 1 and nvme1 share one x16 gen4 uplink (0000:41:00.0)",
        )
    }


def test_gpus_go_by_their_addresses_where_the_driver_was_not_asked(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    text = _findings(fake)["shared_uplink"].text
    assert text.startswith("GPU 0000:43:00.0, GPU 0000:44:00.0 and nvme1 share")


def _put_switch(fake: FakeMachine, uplink: str, *devices: tuple[str, str]) -> None:
    """Write a switch with that uplink and these devices, each a kind and its link."""
    root = "pci0000:40/0000:40:01.0"
    put_device(fake, root, "bridge", uplink, "16 5")
    put_device(fake, f"{root}/0000:41:00.0", "bridge", uplink, uplink)
    for number, (kind, link) in enumerate(devices):
        port = f"{root}/0000:41:00.0/0000:42:{number:02x}.0"
        put_device(fake, port, "bridge", link, link)
        put_device(fake, f"{port}/0000:{0x50 + number:02x}:00.0", kind, link, link)


def test_an_uplink_with_room_for_all_is_no_warning(fake: FakeMachine) -> None:
    _put_switch(fake, "16 5", ("gpu", "16 4"), ("gpu", "16 4"))
    finding = _findings(fake)["shared_uplink"]
    assert finding.severity == Severity.INFO
    assert finding.text.endswith("which has room for all of them at once")


def test_a_network_card_beside_one_gpu_is_said_without_a_warning(fake: FakeMachine) -> None:
    _put_switch(fake, "16 5", ("gpu", "16 5"), ("nic", "16 5"))
    finding = _findings(fake)["shared_uplink"]
    assert finding.severity == Severity.INFO
    assert "room" not in finding.text


def test_drives_that_share_an_uplink_among_themselves_are_no_finding(fake: FakeMachine) -> None:
    _put_switch(fake, "4 4", ("nvme", "4 4"), ("nvme", "4 4"))
    assert _findings(fake) == {}


def test_an_uplink_that_tells_nothing_of_its_link_is_still_shared(fake: FakeMachine) -> None:
    bridge = "pci0000:40/0000:40:01.0"
    write_device(fake, bridge, {"class": "0x060400"})
    for port in ("00", "01"):
        put_device(fake, f"{bridge}/0000:41:{port}.0", "gpu")
    finding = _findings(fake)["shared_uplink"]
    assert finding.severity == Severity.WARNING
    assert finding.text == ("GPU 0000:41:00.0 and GPU 0000:41:01.0 share one uplink (0000:40:01.0)")


def test_an_idle_link_that_stepped_down_is_no_finding(fake: FakeMachine) -> None:
    put_device(fake, "pci0000:40/0000:40:01.0", "bridge", "16 1", "16 5")
    put_device(fake, "pci0000:40/0000:40:01.0/0000:41:00.0", "gpu", "16 1", "16 5")
    assert _findings(fake) == {}


def _put_gpu(fake: FakeMachine, bus: str, now: str, slot: str = "16 4") -> None:
    root = f"pci0000:{bus}/0000:{bus}:00.0"
    put_device(fake, root, "bridge", now, slot)
    put_device(fake, f"{root}/0000:{bus}:01.0", "gpu", now, "16 4")


def test_a_narrow_link_in_a_wide_slot_is_a_warning(fake: FakeMachine) -> None:
    _put_gpu(fake, "40", "8 1")
    _put_gpu(fake, "60", "16 4")
    assert _findings(fake) == {
        "narrow_link": Finding(
            "narrow_link",
            "0000:40:01.0",
            Severity.WARNING,
            "GPU 0000:40:01.0 has 8 of 16 lanes: the slot or the board is wired so, or lanes "
            "failed",
        )
    }


def test_a_slot_without_more_lanes_explains_a_narrow_link(fake: FakeMachine) -> None:
    _put_gpu(fake, "40", "8 4", slot="8 4")
    finding = _findings(fake)["narrow_link"]
    assert finding.severity == Severity.INFO
    assert finding.text.endswith("its slot (0000:40:00.0) has no more")


def test_a_model_that_is_narrow_everywhere_is_no_warning(fake: FakeMachine) -> None:
    """T4 and A10G have boards of eight lanes and report sixteen."""
    _put_gpu(fake, "40", "8 3")
    _put_gpu(fake, "60", "8 3")
    found = find_findings(_look(fake))
    assert [(one.subject, one.severity) for one in found] == [
        ("0000:40:01.0", Severity.INFO),
        ("0000:60:01.0", Severity.INFO),
    ]


def test_a_switch_that_is_narrower_than_a_gpu_below_it_is_named_once(fake: FakeMachine) -> None:
    _put_switch(fake, "8 4", ("gpu", "16 4"), ("gpu", "16 4"))
    found = {finding.rule: finding for finding in find_findings(_look(fake))}
    assert found.keys() == {"shared_uplink", "narrow_path"}
    assert found["narrow_path"].subject == "0000:41:00.0"
    assert found["narrow_path"].severity == Severity.WARNING
    assert found["narrow_path"].text == (
        "The x8 gen4 link of bridge 0000:41:00.0 is less than the x16 gen4 link of "
        "GPU 0000:50:00.0 and GPU 0000:51:00.0 below it"
    )


def test_an_old_switch_is_a_narrow_path_as_well(fake: FakeMachine) -> None:
    _put_switch(fake, "16 3", ("gpu", "16 4"))
    assert _findings(fake)["narrow_path"].text.startswith("The x16 gen3 link of bridge")


def test_an_old_slot_is_the_gpus_own_link_and_no_narrow_path(fake: FakeMachine) -> None:
    put_device(fake, "pci0000:40/0000:40:01.0", "bridge", "16 3", "16 3")
    put_device(fake, "pci0000:40/0000:40:01.0/0000:41:00.0", "gpu", "16 3", "16 5")
    assert _findings(fake) == {}


@pytest.mark.parametrize(
    ("cpus", "memory", "text"),
    [
        ("16-31", "0-1", "runs on node 1, but uses GPU 0 on node 0"),
        ("0-15", "1", "takes memory from node 1, but uses GPU 0 on node 0"),
        ("16-31", "1", "runs on node 1 and takes memory from node 1, but uses GPU 0 on node 0"),
    ],
    ids=["cpus", "memory", "both"],
)
def test_a_process_held_away_from_its_gpu_is_a_warning(
    fake: FakeMachine, cpus: str, memory: str, text: str
) -> None:
    put_switched_pair(fake)
    put_placement(fake, 4801, cpus, memory)
    found = _findings(fake, Knowledge(((4801, "VLLM::Worker_TP"),), _GPUS))["numa_mismatch"]
    assert (found.subject, found.severity) == ("pid 4801", Severity.WARNING)
    assert found.text == (f"VLLM::Worker_TP (pid 4801) {text}: its copies cross from node to node")


@pytest.mark.parametrize("cpus", ["0-31", "0-15", "0-3,20", "", "40-47"])
def test_a_process_that_may_run_beside_its_gpu_or_anywhere_unknown_is_fine(
    fake: FakeMachine, cpus: str
) -> None:
    put_switched_pair(fake)
    put_placement(fake, 4801, cpus)
    found = _findings(fake, Knowledge(((4801, "VLLM::Worker_TP"),), _GPUS))
    assert "numa_mismatch" not in found


def test_a_process_of_no_gpu_is_nowhere_away_from_it(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    put_placement(fake, 4711, "16-31")
    assert "numa_mismatch" not in _findings(fake, Knowledge(((4711, "vllm"),), _GPUS))


def test_a_gpu_of_unknown_node_is_no_mismatch(fake: FakeMachine) -> None:
    put_nodes(fake, "0-15", "16-31")
    put_device(fake, "pci0000:42/0000:43:00.0", "gpu", node=-1)
    put_placement(fake, 4801, "16-31", "1")
    assert _findings(fake, Knowledge(((4801, "w"),), _GPUS)) == {}


def test_memory_of_a_grace_gpu_is_no_socket(fake: FakeMachine) -> None:
    """Nodes 2 and 3 are memory of GPUs: a process that may use them is held nowhere."""
    put_nodes(fake, "0-71", "72-143", "", "")
    put_device(fake, "pci0009:00/0009:00:00.0/0009:01:00.0", "gpu", node=1)
    put_placement(fake, 4801, "72-143", "2-3")
    gpus = {"0009:01:00.0": KnownGpu("GPU-a", 0, frozenset({4801}))}
    look = _look(fake, Knowledge(((4801, "w"),), gpus))
    assert [node.cpus for node in look.numa_nodes] == ["0-71", "72-143", None, None]
    assert find_findings(look) == ()


def test_on_a_guest_nothing_is_said_about_links(fake: FakeMachine) -> None:
    """The bridge, the narrow link and the PHB everywhere are what the hypervisor shows."""
    put_switched_pair(fake)
    put_cpuinfo(fake, guest=True)
    found = _findings(fake)
    assert found.keys() == {"virtualised"}
    assert found["virtualised"].severity == Severity.INFO


def test_warnings_come_first(fake: FakeMachine) -> None:
    _put_gpu(fake, "40", "8 4", slot="8 4")
    _put_gpu(fake, "60", "4 4")
    severities = [finding.severity for finding in find_findings(_look(fake))]
    assert severities == [Severity.WARNING, Severity.INFO]


@pytest.mark.parametrize(
    ("shape", "text"),
    [((4, 16), "x16 gen4"), ((None, 8), "x8"), ((5, None), "gen5"), ((None, None), "")],
)
def test_a_link_in_words_says_what_is_known(
    shape: tuple[int | None, int | None], text: str
) -> None:
    assert str(LinkShape(*shape)) == text
