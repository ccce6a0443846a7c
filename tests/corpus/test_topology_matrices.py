"""Tables of ``nvidia-smi topo -m`` as people pasted them, read by our parser."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from collector.topo_matrix import TopoMatrix, TopoMatrixError, parse_topo_matrix
from collector.topology_cross_check import find_disagreements
from collector.topology_findings import find_findings
from collector.topology_look import Knowledge, KnownGpu, read_look
from tests.collector.fake_buses import put_cpuinfo, put_device, put_nodes
from tests.collector.fake_machine import FakeMachine

_COMPLETE = {
    "topo-5gpu-mixed-580.txt": (5, 0),
    "topo-8gpu-pcie-pix-pairs.txt": (8, 0),
    "topo-a100-8gpu-2numa.txt": (8, 4),
    "topo-b300-8gpu-8nic.txt": (8, 8),
    "topo-gh200-1gpu-tabs.txt": (1, 2),
    "topo-h100-4gpu-vm-560.txt": (4, 8),
    "topo-h20-8gpu-8nic-535.txt": (8, 8),
    "topo-l40s-4gpu-535-tabs.txt": (4, 0),
    "topo-rtx4090-8gpu-2numa-tabs.txt": (8, 2),
    "topo-rtx4090-8gpu-8numa.txt": (8, 0),
}
"""GPUs and network cards of each whole table."""

_OTHERS = {
    "topo-h100-8gpu-tabs-narrow-terminal.txt",
    "topo-h200-8gpu-10nic-PARTIAL.txt",
    "topo-h200-8gpu-575-PARTIAL.txt",
    "topo-old-format-no-gpu-numa-id.txt",
    "topo-p2p.txt",
}


@pytest.fixture
def folder(corpus: Path) -> Path:
    return corpus / "gpu/topo"


def _parse(folder: Path, name: str) -> TopoMatrix:
    return parse_topo_matrix((folder / name).read_text(encoding="utf-8"))


def test_every_table_of_the_corpus_is_looked_at(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == _COMPLETE.keys() | _OTHERS


@pytest.mark.parametrize("name", _COMPLETE)
def test_a_whole_table_is_square_with_affinities_of_its_gpus(folder: Path, name: str) -> None:
    matrix = _parse(folder, name)
    gpus = [label for label in matrix.labels if label.startswith("GPU")]
    assert (len(gpus), len(matrix.labels) - len(gpus)) == _COMPLETE[name]
    assert matrix.problems == ()
    assert len(matrix.relations) == len(matrix.labels) ** 2
    assert matrix.cpus.keys() == matrix.numa_nodes.keys() == set(gpus)


@pytest.mark.parametrize(
    ("name", "gpu", "cpus", "node"),
    [
        ("topo-rtx4090-8gpu-2numa-tabs.txt", "GPU7", {*range(56, 112), *range(168, 224)}, 1),
        ("topo-rtx4090-8gpu-8numa.txt", "GPU4", {*range(112, 128), *range(240, 255)}, 7),
        ("topo-a100-8gpu-2numa.txt", "GPU4", {*range(64, 128), *range(192, 255)}, 1),
        ("topo-h200-8gpu-10nic-PARTIAL.txt", "GPU4", {1, 3, 5, 7, 9, 11}, 1),
        ("topo-5gpu-mixed-580.txt", "GPU0", {*range(8, 16), *range(24, 32)}, 1),
    ],
)
def test_lists_of_cpus_are_expanded(
    folder: Path, name: str, gpu: str, cpus: set[int], node: int
) -> None:
    matrix = _parse(folder, name)
    assert matrix.cpus[gpu] == cpus
    assert matrix.numa_nodes[gpu] == {node}


def test_only_the_grace_gpu_is_a_numa_node_itself(folder: Path) -> None:
    found = {name: _parse(folder, name).gpu_numa_nodes for name in _COMPLETE}
    assert {name: nodes for name, nodes in found.items() if nodes} == {
        "topo-gh200-1gpu-tabs.txt": {"GPU0": 1}
    }


def test_cards_go_by_the_names_of_the_legend(folder: Path) -> None:
    assert _parse(folder, "topo-h20-8gpu-8nic-535.txt").names["NIC0"] == "mlx5_1"
    assert _parse(folder, "topo-b300-8gpu-8nic.txt").names["NIC7"] == "mlx5_bond_7"


def test_old_tables_lack_columns_and_name_cards_by_device(folder: Path) -> None:
    text = (folder / "topo-old-format-no-gpu-numa-id.txt").read_text(encoding="utf-8")
    older, oldest = (parse_topo_matrix(part) for part in text.split("# ---"))
    assert (older.labels, older.problems) == (("GPU0", "GPU1"), ())
    assert older.cpus["GPU1"] == set(range(12))
    assert not older.numa_nodes  # printed as N/A
    assert oldest.labels[-1] == "mlx5_0"
    assert oldest.relations["mlx5_0", "GPU3"] == "SYS"
    assert oldest.relations["GPU0", "GPU3"] == "NV2"
    assert oldest.problems == ()
    assert parse_topo_matrix(text).problems == ("a second table follows",)


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [("topo-h200-8gpu-10nic-PARTIAL.txt", 18, 5), ("topo-h200-8gpu-575-PARTIAL.txt", 20, 1)],
)
def test_a_cut_table_is_incomplete_and_its_rows_are_kept(
    folder: Path, name: str, columns: int, rows: int
) -> None:
    matrix = _parse(folder, name)
    assert matrix.problems == (f"{rows} rows for {columns} columns",)
    assert len(matrix.relations) == columns * rows


def test_rows_whose_cells_run_together_are_refused(folder: Path) -> None:
    matrix = _parse(folder, "topo-h100-8gpu-tabs-narrow-terminal.txt")
    assert matrix.labels[-4:] == ("NIC8", "NIC9", "NIC10", "NIC11")
    assert matrix.problems == (
        "row GPU4: cells run together: NODENODE",
        "row GPU7: cells run together: NODENODE",
        "2 rows for 20 columns",
    )
    assert matrix.relations["GPU1", "NIC3"] == "PXB"
    assert {row for row, _ in matrix.relations} == {"GPU0", "GPU1"}


def test_the_table_of_peer_to_peer_is_another(folder: Path) -> None:
    with pytest.raises(TopoMatrixError, match="topo -p2p"):
        _parse(folder, "topo-p2p.txt")


def test_the_pairs_of_eight_gpus_share_four_uplinks(folder: Path, tmp_path: Path) -> None:
    """The machine behind the table, built from it: four switches with two GPUs each."""
    matrix = _parse(folder, "topo-8gpu-pcie-pix-pairs.txt")
    pairs = [pair for pair in combinations(matrix.labels, 2) if matrix.relations[pair] == "PIX"]
    assert pairs == [("GPU0", "GPU1"), ("GPU2", "GPU3"), ("GPU4", "GPU5"), ("GPU6", "GPU7")]
    fake = FakeMachine(tmp_path)
    put_cpuinfo(fake)
    put_nodes(fake, "0-23,48-71", "24-47,72-95")
    gpus = {}
    for number, pair in enumerate(pairs):
        root = f"pci0000:{number}0/0000:{number}0:01.0"
        node = number // 2
        for place in (root, f"{root}/0000:{number}1:00.0"):
            put_device(fake, place, "bridge", node=node)
        for port, label in enumerate(pair):
            above = f"{root}/0000:{number}1:00.0/0000:{number}2:0{port}.0"
            address = f"0000:{number}{port + 3}:00.0"
            put_device(fake, above, "bridge", node=node)
            put_device(fake, f"{above}/{address}", "gpu", node=node)
            gpus[address] = KnownGpu(f"GPU-{label}", int(label.removeprefix("GPU")))
    look = read_look(fake.proc, fake.sys, Knowledge((), gpus))
    assert find_disagreements(look, matrix) == ()
    assert [finding.text for finding in find_findings(look)] == [
        "GPU 0 and GPU 1 share one x16 gen4 uplink (0000:01:00.0)",
        "GPU 2 and GPU 3 share one x16 gen4 uplink (0000:11:00.0)",
        "GPU 4 and GPU 5 share one x16 gen4 uplink (0000:21:00.0)",
        "GPU 6 and GPU 7 share one x16 gen4 uplink (0000:31:00.0)",
    ]
