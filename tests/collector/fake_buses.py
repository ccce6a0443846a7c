"""PCI buses and NUMA nodes made of files, on a fake machine."""

from __future__ import annotations

from collections.abc import Mapping

from tests.collector.fake_machine import FakeMachine

CLASSES = {
    "bridge": "0x060400",
    "gpu": "0x030200",
    "nvme": "0x010802",
    "nic": "0x020700",
    "bmc": "0x030000",
}
SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
MODELS = {"gpu": ("0x10de", "0x2330"), "bmc": ("0x1a03", "0x2000"), "nvme": ("0x144d", "0xa80a")}


def put_device(
    fake: FakeMachine, place: str, kind: str, now: str = "16 4", most: str = "16 4", node: int = 0
) -> None:
    """Write what the kernel shows of a device.

    Args:
        fake: Where.
        place: Path below /sys/devices, as ``pci0000:3a/0000:3a:00.0/0000:3b:00.0``.
        kind: A key of `CLASSES`.
        now: Width and generation of its link; empty where it has none.
        most: Width and generation that it supports.
        node: NUMA node.
    """
    vendor, model = MODELS.get(kind, ("0x10b5", "0x8796"))
    files = {"class": CLASSES[kind], "vendor": vendor, "device": model, "numa_node": str(node)}
    for name, link in (("current", now), ("max", most)):
        if link:
            width, generation = map(int, link.split())
            files[f"{name}_link_width"] = str(width)
            files[f"{name}_link_speed"] = f"{SPEEDS[generation]} GT/s PCIe"
    write_device(fake, place, files)


def write_device(fake: FakeMachine, place: str, files: Mapping[str, str]) -> None:
    """Write the attributes of a device and the link of the bus that leads to it."""
    for name, text in files.items():
        fake.write(f"sys/devices/{place}/{name}", f"{text}\n")
    address = place.rpartition("/")[2]
    fake.link(f"sys/bus/pci/devices/{address}", f"sys/devices/{place}")


def put_nodes(fake: FakeMachine, *cpus: str) -> None:
    """Write NUMA nodes with these CPUs, from node 0 on; one without CPUs is memory alone."""
    for number, own in enumerate(cpus):
        fake.write(f"sys/devices/system/node/node{number}/cpulist", f"{own}\n")


def put_cpuinfo(fake: FakeMachine, *, guest: bool = False) -> None:
    """Write what the first CPU says of itself."""
    flags = "fpu vme sse2 hypervisor lahf_lm" if guest else "fpu vme sse2 lahf_lm"
    fake.write("proc/cpuinfo", f"processor\t: 0\nmodel name\t: Fictional\nflags\t\t: {flags}\n\n")


def put_placement(fake: FakeMachine, pid: int, cpus: str, memory: str = "0-1") -> None:
    """Write where a process may run."""
    text = f"Name:\tVLLM::Worker_TP\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{memory}\n"
    fake.write(f"proc/{pid}/status", text)


def put_switched_pair(fake: FakeMachine) -> None:
    """Write two GPUs and an NVMe drive below a switch on node 0, and one GPU alone on node 1.

    Each GPU has sixteen lanes of generation 4, and the switch no more than that for all.
    """
    put_cpuinfo(fake)
    put_nodes(fake, "0-15", "16-31")
    root = "pci0000:40/0000:40:01.0"
    put_device(fake, root, "bridge", most="16 5")
    put_device(fake, f"{root}/0000:41:00.0", "bridge")
    for port, kind, lanes in (("08", "gpu", 16), ("10", "gpu", 16), ("14", "nvme", 4)):
        place = f"{root}/0000:41:00.0/0000:42:{port}.0"
        put_device(fake, place, "bridge", f"{lanes} 4", f"{lanes} 4")
        bus = {"08": "43", "10": "44", "14": "45"}[port]
        put_device(fake, f"{place}/0000:{bus}:00.0", kind, f"{lanes} 4", f"{lanes} 4")
    drive = f"{root}/0000:41:00.0/0000:42:14.0/0000:45:00.0"
    fake.write(f"sys/devices/{drive}/nvme/nvme1/model", "Fictional\n")
    put_device(fake, "pci0000:c0/0000:c0:03.1", "bridge", "16 1", "16 5", node=1)
    put_device(fake, "pci0000:c0/0000:c0:03.1/0000:c1:00.0", "gpu", "16 1", "16 4", node=1)
