"""Made-up GPUs for the made-up host: one that is busy, one that cannot be judged, quiet ones.

GPU 0 loads KV cache in bursts all the time, and in earnest during the incident. One second later
the gaps of engine rag-long are longer by `PLANTED_MS` for each unit of its saturation. GPU 1 is a
MIG instance without a link of its own. GPU 2 hangs below the same bridge as GPU 0 and is known from
windows of 20 ms only; the others, if any, have cards of their own, one of them downtrained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

S = 1_000_000
Row = dict[str, object]
Rows = dict[str, list[Row]]

PLANTED_MS = 9.0
BUSY, PART, QUIET = 10, 11, 12
UPLINK = 30
RX_CEILING = 24.6e9
TX_CEILING = 26.3e9
RAW = 31.508e9
_DEFAULT = RAW * 0.83
_PART_REASON = "MIG instance: the link belongs to the physical GPU."
_BRIDGE = "0000:16:00.0"


def _wave(seed: float, second: float) -> float:
    """Return a number from -1 to 1 that follows from its arguments alone."""
    return math.sin(second * 0.9898 + seed * 7.233) * 0.5 + math.sin(second * 0.17 + seed) * 0.5


def _chance(seed: int, place: int) -> float:
    """Return a number from 0 to 1 that looks random and follows from its arguments alone."""
    return math.sin(seed * 127.1 + place * 311.7) * 43_758.5453 % 1


def load_saturation(at_s: int, bad: float) -> float:
    """Return how full the H2D link of GPU 0 is, 0 to 1, in the second before a moment.

    Args:
        at_s: The moment.
        bad: How bad the incident is, 0 to 1.
    """
    burst = 0.34 + 0.22 * _chance(3, at_s) if _chance(1, at_s // 5) < 0.22 else 0.0
    return min(1.0, max(0.02, 0.13 + 0.05 * _wave(1, at_s) + burst + 0.8 * bad))


def added_ms(at_s: int, bad: float) -> float:
    """Return by how much the gaps of rag-long are longer in the second before a moment."""
    return PLANTED_MS * load_saturation(at_s - 1, bad)


def uuid(gpu: int) -> str:
    """Return the UUID of a GPU."""
    kind = "MIG" if gpu == 1 else "GPU"
    return f"{kind}-{gpu:x}f2e7c10-55aa-4b1c-9d00-{gpu:012x}"


def gpu_facts(gpus: int, model: str, at_us: int) -> Rows:
    """Return names, ceilings and the topology."""
    names: list[Row] = [
        {
            "wall_us": at_us, "device": BUSY + gpu, "kind": "gpu", "name": uuid(gpu),
            "role": "mig" if gpu == 1 else "gpu", "model": model, "pci_address": address(gpu),
            "numa_node": 0 if gpu != 1 else 1, "gpu_index": gpu, "driver": "595.45.04",
        }
        for gpu in range(gpus)
    ]  # fmt: skip
    names.append(
        {"wall_us": at_us, "device": UPLINK, "kind": "bridge", "name": _BRIDGE, "role": "uplink"}
    )
    ceilings: list[Row] = [
        {
            "wall_us": at_us, "device": BUSY, "direction": direction, "kind": "calibrated",
            "bytes_per_second": ceiling, "link_generation": 4, "link_width": 16,
            "tool": "nvbandwidth 0.8",
        }
        for direction, ceiling in (("rx", RX_CEILING), ("tx", TX_CEILING))
    ]  # fmt: skip
    return {
        "device": names,
        "link_ceiling": ceilings,
        "topology": [{"wall_us": at_us, **node} for node in _nodes(gpus)],
        "topology_finding": [{"wall_us": at_us, **finding} for finding in _FINDINGS],
    }


def address(gpu: int) -> str:
    """Return the PCI address of a GPU."""
    return {0: "0000:18:00.0", 1: "0000:38:00.0", 2: "0000:19:00.0"}.get(
        gpu, f"0000:{0x80 + gpu:x}:00.0"
    )


def _nodes(gpus: int) -> Iterator[Row]:
    """Return the nodes of the topology."""
    for node, cpus in enumerate(("0-31", "32-63")):
        yield {"address": f"node{node}", "kind": "numa", "numa_node": node, "cpus": cpus}
    yield _node("0000:15:01.0", "node0", "root", 4, 16)
    yield _node(_BRIDGE, "0000:15:01.0", "bridge", 4, 16)
    yield _node("0000:17:00.0", _BRIDGE, "bridge", 4, 16)
    yield _node("0000:17:01.0", _BRIDGE, "bridge", 4, 16)
    yield _node("0000:17:02.0", _BRIDGE, "bridge", 4, 16)
    yield _node("0000:1a:00.0", "0000:17:02.0", "nic", 4, 16, name="mlx5_0")
    yield _node("0000:37:01.0", "node1", "root", 4, 16)
    yield _node("0000:5a:01.0", "node0", "root", 4, 4)
    yield _node("0000:5b:00.0", "0000:5a:01.0", "nvme", 3, 4, name="nvme2")
    for gpu in range(gpus):
        above = {0: "0000:17:00.0", 1: "0000:37:01.0", 2: "0000:17:01.0"}.get(gpu, "0000:37:01.0")
        yield _node(
            address(gpu), above, "gpu", 4, 16, name=uuid(gpu), device=BUSY + gpu
        )  # fmt: skip
    yield {
        "address": "pid 4242", "parent": address(0), "kind": "process", "numa_node": 1,
        "name": "rag-long engine core", "cpus": "32-63", "memory_nodes": "1",
    }  # fmt: skip


def _node(address: str, parent: str, kind: str, generation: int, width: int, **more: object) -> Row:
    return {
        "address": address, "parent": parent, "kind": kind, "link_generation": generation,
        "link_width": width, "max_link_generation": 4, "max_link_width": width,
        "numa_node": 1 if address > "0000:30" and address < "0000:50" else 0, **more,
    }  # fmt: skip


_FINDINGS: tuple[Row, ...] = (
    {
        "rule": "numa_mismatch", "subject": "pid 4242", "severity": "warning",
        "text": "rag-long engine core (pid 4242) may run on CPUs 32-63 of node 1 only; its GPU 0 "
        "hangs at node 0.",
    },
    {
        "rule": "narrow_link", "subject": "0000:5b:00.0", "severity": "warning",
        "text": "nvme2 runs at gen 3, the slot and the drive can do gen 4.",
    },
    {
        "rule": "shared_uplink", "subject": _BRIDGE, "severity": "info",
        "text": "2 GPUs and mlx5_0 share the gen 4 x16 uplink of 0000:16:00.0.",
    },
)  # fmt: skip


def gpu_second(gpus: int, at_us: int, bad: float) -> Rows:
    """Return the rows of one second."""
    at_s = at_us // S
    rx, tx = load_saturation(at_s, bad), 0.07 + 0.03 * _wave(5, at_s) + 0.12 * bad
    quiet = max(0.0, 0.05 + 0.03 * _wave(9, at_s))
    rows = [_busy(at_us, rx, tx), _part(at_us), _quiet(at_us, QUIET, quiet)]
    rows += [_quiet(at_us, BUSY + gpu, quiet + 0.02 * gpu, gpu) for gpu in range(3, gpus)]
    uplink: Row = {
        "wall_us": at_us, "mono_us": at_us, "device": UPLINK, "window_us": S, "gpus": 2,
        "gpus_measured": 2,
        "rx_window_mean_bytes_per_second": rx * RX_CEILING + quiet * _DEFAULT,
        "tx_window_mean_bytes_per_second": tx * TX_CEILING + quiet * _DEFAULT / 2,
        "rx_saturation_ratio": min(1.0, (rx * RX_CEILING + quiet * _DEFAULT) / _DEFAULT),
        "tx_saturation_ratio": (tx * TX_CEILING + quiet * _DEFAULT / 2) / _DEFAULT,
        "ceiling_bytes_per_second": _DEFAULT, "link_generation": 4, "link_width": 16,
    }  # fmt: skip
    return {"gpu_link": rows[:gpus], "pcie_uplink": [uplink]}


def _busy(at_us: int, rx: float, tx: float) -> Row:
    """Return the row of the GPU whose link was calibrated and is counted without a hole."""
    return {
        "wall_us": at_us, "mono_us": at_us, "device": BUSY, "window_us": S, "state": "ok",
        "rx_bytes": round(rx * RX_CEILING), "tx_bytes": round(tx * TX_CEILING),
        "rx_window_mean_bytes_per_second": rx * RX_CEILING,
        "tx_window_mean_bytes_per_second": tx * TX_CEILING,
        "rx_saturation_ratio": rx, "tx_saturation_ratio": tx,
        "rx_raw_ratio": rx * RX_CEILING / RAW, "tx_raw_ratio": tx * TX_CEILING / RAW,
        "rx_ceiling_bytes_per_second": RX_CEILING, "tx_ceiling_bytes_per_second": TX_CEILING,
        "coverage_ratio": 1.0, "method": "field_counter",
        "rx_ceiling_kind": "calibrated", "tx_ceiling_kind": "calibrated",
        "link_generation": 4, "link_width": 16, "max_link_generation": 4, "max_link_width": 16,
        "both_busy": False, "link_downtrained": False, "call_us": 310,
    }  # fmt: skip


def _part(at_us: int) -> Row:
    """Return the row of a GPU to which saturation does not apply."""
    return {
        "wall_us": at_us, "mono_us": at_us, "device": PART, "window_us": S,
        "state": "not_applicable", "reason": _PART_REASON,
    }  # fmt: skip


def _quiet(at_us: int, device: int, load: float, number: int = 2) -> Row:
    """Return the row of a GPU that is known from two windows of 20 ms a second."""
    down = number == 4
    ceiling = _DEFAULT / 2 if down else _DEFAULT
    return {
        "wall_us": at_us, "mono_us": at_us, "device": device, "window_us": S, "state": "ok",
        "rx_window_mean_bytes_per_second": load * ceiling,
        "tx_window_mean_bytes_per_second": load * ceiling / 2,
        "rx_saturation_ratio": load, "tx_saturation_ratio": load / 2,
        "rx_raw_ratio": load * 0.83, "tx_raw_ratio": load * 0.415,
        "rx_ceiling_bytes_per_second": ceiling, "tx_ceiling_bytes_per_second": ceiling,
        "coverage_ratio": 0.02, "method": "throughput",
        "rx_ceiling_kind": "default", "tx_ceiling_kind": "default",
        "link_generation": 3 if down else 1, "link_width": 16, "max_link_generation": 4,
        "max_link_width": 16, "both_busy": False, "link_downtrained": True if down else None,
        "call_us": 43_000,
    }  # fmt: skip
