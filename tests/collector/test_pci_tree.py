from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.pci_text import PciKind, normalise_address, parse_generation, parse_kind, parse_width
from collector.pci_tree import PciNode, parse_place, read_pci_tree
from tests.collector.fake_buses import put_device, put_switched_pair, write_device
from tests.collector.fake_machine import FakeMachine


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def _addresses(nodes: tuple[PciNode, ...]) -> list[str]:
    return [node.address for node in nodes]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        (" 0000:AF:1F.7\n", "0000:af:1f.7"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("3b:00.0", None),
        ("0000:3b:20.0", None),
        ("0000:3b:00.8", None),
        ("0000:3b:00", None),
        ("pci0000:3b", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_an_address_is_spelled_as_sysfs_spells_it(text: str, address: str | None) -> None:
    assert normalise_address(text) == address


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    address = normalise_address(text)
    assert address is None or normalise_address(address) == address
    assert parse_generation(text) in {None, 1, 2, 3, 4, 5, 6}
    assert parse_width(text) in {None, 1, 2, 4, 8, 12, 16, 32}
    assert parse_kind(text, None) in PciKind


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8 GT/s", 3),
        ("16.0 GT/s PCIe", 4),
        ("16 GT/s", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("Unknown", None),
        ("Unknown speed", None),
        ("17.0 GT/s PCIe", None),
        (None, None),
    ],
)
def test_a_speed_is_a_generation_in_both_spellings(text: str | None, generation: int) -> None:
    assert parse_generation(text) == generation


@pytest.mark.parametrize(("text", "width"), [("16", 16), ("255", None), ("0", None), (None, None)])
def test_a_width_the_kernel_does_not_know_is_none(text: str | None, width: int | None) -> None:
    assert parse_width(text) == width


@pytest.mark.parametrize(
    ("code", "vendor", "kind"),
    [
        ("0x030200", "0x10de", PciKind.GPU),
        ("0x030000", "0x10de", PciKind.GPU),
        ("0x030000", None, PciKind.GPU),
        ("0x030000", "0x1a03", PciKind.OTHER),
        ("0x010802", "0x144d", PciKind.NVME),
        ("0x020000", "0x8086", PciKind.NIC),
        ("0x020700", "0x15b3", PciKind.NIC),
        ("0x060400", "0x10b5", PciKind.BRIDGE),
        ("0x040300", "0x10de", PciKind.OTHER),
    ],
)
def test_a_class_is_a_kind(code: str, vendor: str | None, kind: PciKind) -> None:
    """The sound function of a GPU and the display of a management controller are no GPUs."""
    assert parse_kind(code, vendor) == kind


def test_a_path_behind_vmd_begins_at_its_own_root_port() -> None:
    path = "/sys/devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0"
    place = parse_place(Path(path).parts)
    assert place.host_bridge == "pci10000:00"
    assert place.chain == ("10000:00:02.0", "10000:01:00.0")


def test_a_switch_shares_its_uplink_and_the_gpu_beside_it_shares_none(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    tree = read_pci_tree(fake.sys)
    assert _addresses(tree.path("0000:43:00.0")) == [
        "0000:43:00.0",
        "0000:42:08.0",
        "0000:41:00.0",
        "0000:40:01.0",
    ]
    assert [node.kind for node in tree.path("0000:c1:00.0")] == ["gpu", "root"]
    assert dict(tree.shared_uplinks()) == {
        "0000:41:00.0": ("0000:43:00.0", "0000:44:00.0", "0000:45:00.0")
    }
    gpu = tree.nodes["0000:c1:00.0"]
    assert (gpu.generation, gpu.max_generation, gpu.width, gpu.max_width) == (1, 4, 16, 16)
    assert (gpu.numa_node, gpu.host_bridge, gpu.model) == (1, "pci0000:c0", "10de:2330")
    assert tree.nodes["0000:45:00.0"].name == "nvme1"
    assert tree.nodes["0000:41:00.0"].kind == PciKind.BRIDGE


def test_a_bridge_above_counts_only_where_further_devices_join(fake: FakeMachine) -> None:
    upper = "pci0000:00/0000:00:01.0/0000:01:00.0"
    lower = f"{upper}/0000:02:00.0/0000:03:00.0"
    for place in (upper.rpartition("/")[0], upper, f"{upper}/0000:02:00.0", lower):
        put_device(fake, place, "bridge")
    for port in ("0000:04:00.0", "0000:04:01.0"):
        put_device(fake, f"{lower}/{port}", "bridge")
    put_device(fake, f"{lower}/0000:04:00.0/0000:05:00.0", "gpu")
    put_device(fake, f"{lower}/0000:04:01.0/0000:06:00.0", "gpu")
    put_device(fake, f"{upper}/0000:02:01.0", "bridge")
    put_device(fake, f"{upper}/0000:02:01.0/0000:07:00.0", "nic")
    assert dict(read_pci_tree(fake.sys).shared_uplinks()) == {
        "0000:01:00.0": ("0000:05:00.0", "0000:06:00.0", "0000:07:00.0"),
        "0000:03:00.0": ("0000:05:00.0", "0000:06:00.0"),
    }


def test_functions_of_one_card_share_nothing_with_each_other(fake: FakeMachine) -> None:
    put_device(fake, "pci0000:3a/0000:3a:00.0", "bridge")
    for function in ("0", "1"):
        put_device(fake, f"pci0000:3a/0000:3a:00.0/0000:3b:00.{function}", "nic")
    tree = read_pci_tree(fake.sys)
    assert len(tree.nodes) == 3
    assert not tree.shared_uplinks()


def test_virtual_functions_are_no_cards(fake: FakeMachine) -> None:
    put_device(fake, "pci0000:3a/0000:3a:00.0", "bridge")
    put_device(fake, "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "nic")
    put_device(fake, "pci0000:3a/0000:3a:00.0/0000:3b:02.1", "nic")
    inside = "sys/devices/pci0000:3a/0000:3a:00.0/"
    fake.link(f"{inside}0000:3b:02.1/physfn", f"{inside}0000:3b:00.0")
    tree = read_pci_tree(fake.sys)
    assert sorted(tree.nodes) == ["0000:3a:00.0", "0000:3b:00.0"]
    assert not tree.shared_uplinks()


def test_drives_behind_vmd_hang_on_their_own_root_ports(fake: FakeMachine) -> None:
    for port, bus in (("02", "01"), ("04", "02")):
        root = f"pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:{port}.0"
        put_device(fake, root, "bridge", "4 4", "4 4", node=-1)
        put_device(fake, f"{root}/10000:{bus}:00.0", "nvme", "4 4", "4 4", node=-1)
    tree = read_pci_tree(fake.sys)
    assert _addresses(tree.path("10000:02:00.0")) == ["10000:02:00.0", "10000:00:04.0"]
    assert {node.numa_node for node in tree.nodes.values()} == {None}
    assert not tree.shared_uplinks()


def test_a_display_of_the_board_is_no_gpu(fake: FakeMachine) -> None:
    put_device(fake, "pci0000:00/0000:00:1c.0/0000:02:00.0", "bmc", "", "")
    tree = read_pci_tree(fake.sys)
    assert (tree.nodes, tree.devices, tree.unreadable) == ({}, 1, 0)


def test_what_the_kernel_does_not_know_is_none(fake: FakeMachine) -> None:
    files = {
        "class": "0x030200",
        "numa_node": "-1",
        "current_link_speed": "Unknown",
        "current_link_width": "255",
        "max_link_speed": "16 GT/s",
        "max_link_width": "x16",
    }
    write_device(fake, "pci0000:00/0000:01:00.0", files)
    assert read_pci_tree(fake.sys).nodes == {
        "0000:01:00.0": PciNode(
            "0000:01:00.0", None, PciKind.GPU, max_generation=4, host_bridge="pci0000:00"
        )
    }


def test_a_link_that_leads_nowhere_costs_the_place_only(fake: FakeMachine) -> None:
    (fake.sys / "bus/pci/devices").mkdir(parents=True)
    folder = fake.sys / "elsewhere"
    folder.mkdir()
    (folder / "class").write_text("0x030200\n")
    (fake.sys / "bus/pci/devices/0000:01:00.0").symlink_to(folder)
    (fake.sys / "bus/pci/devices/0000:02:00.0").symlink_to(fake.sys / "gone")
    tree = read_pci_tree(fake.sys)
    assert [(node.address, node.parent) for node in tree.nodes.values()] == [("0000:01:00.0", None)]
    assert (tree.devices, tree.unreadable) == (2, 1)


def test_a_device_that_cannot_be_read_is_counted(fake: FakeMachine) -> None:
    put_switched_pair(fake)
    attribute = fake.sys / "bus/pci/devices/0000:43:00.0/class"
    attribute.unlink()
    attribute.mkdir()  # opening works, reading fails, for root as well
    tree = read_pci_tree(fake.sys)
    assert tree.unreadable == 1
    assert tree.shared_uplinks()["0000:41:00.0"] == ("0000:44:00.0", "0000:45:00.0")


def test_a_machine_without_buses_has_an_empty_tree(fake: FakeMachine) -> None:
    tree = read_pci_tree(fake.sys)
    assert (dict(tree.nodes), tree.devices) == ({}, 0)
    assert tree.path("0000:01:00.0") == ()
