from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.topo_matrix import TopoMatrixError, parse_topo_matrix

_TABS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tPIX\tNODE\t0-3,8-9\t0\t\tN/A\n"
    "GPU1\tPIX\t X \tPXB\t4,6\t1\t\t2\n"
    "NIC0\tNODE\tPXB\t X \t\t\t\t\n"
    "\n"
    "Legend:\n"
    "\n"
    "  X    = Self\n"
    "  PIX  = Connection traversing at most a single PCIe switch\n"
    "\n"
    "NIC Legend:\n"
    "\n"
    "  NIC0: mlx5_bond_0\n"
)


def test_a_table_with_tabs_and_an_underlined_head_is_read() -> None:
    matrix = parse_topo_matrix(_TABS)
    assert matrix.labels == ("GPU0", "GPU1", "NIC0")
    assert matrix.relations["GPU0", "GPU1"] == "PIX"
    assert matrix.relations["NIC0", "GPU1"] == "PXB"
    assert matrix.cpus == {"GPU0": {0, 1, 2, 3, 8, 9}, "GPU1": {4, 6}}
    assert matrix.numa_nodes == {"GPU0": {0}, "GPU1": {1}}
    assert matrix.gpu_numa_nodes == {"GPU1": 2}
    assert matrix.names == {"NIC0": "mlx5_bond_0"}
    assert matrix.problems == ()


def test_the_same_table_padded_with_blanks_reads_the_same() -> None:
    assert parse_topo_matrix(_TABS.expandtabs(8)) == parse_topo_matrix(_TABS)


def test_an_old_table_has_no_numa_and_names_its_cards() -> None:
    matrix = parse_topo_matrix(
        "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tSYS\t0-1\nmlx5_0\tSYS\t X \t\n"
    )
    assert matrix.labels == ("GPU0", "mlx5_0")
    assert matrix.cpus == {"GPU0": {0, 1}}
    assert not matrix.problems
    assert not matrix.numa_nodes


def test_one_gpu_is_a_table_too() -> None:
    matrix = parse_topo_matrix("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-11\tN/A\n")
    assert (matrix.relations, matrix.numa_nodes) == ({("GPU0", "GPU0"): "X"}, {})


def test_a_relation_nobody_knows_is_kept_as_text() -> None:
    matrix = parse_topo_matrix(
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tQQQ7\t0\nGPU1\tQQQ7\t X \t1\n"
    )
    assert matrix.relations["GPU1", "GPU0"] == "QQQ7"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("GPU1\tNV18NODE\t X \tPXB\t4\t1\t\t2", "row GPU1: cells run together: NV18NODE"),
        ("GPU1\tPIX\t X \t4\t1\t\t2", "row GPU1: 2 of 3 relations"),
        ("GPU1\tPIX", "row GPU1: 1 of 3 relations"),
        ("GPU1", "row GPU1: 0 of 3 relations"),
        ("GPU1\t X \tPIX\tPXB\t4\t1\t\t2", "row GPU1: X stands not below its own name"),
        ("GPU1\tPIX\tPIX\tPXB\t4\t1\t\t2", "row GPU1: X stands not below its own name"),
        ("GPU1\tPIX\t X \tPXB\t4", "row GPU1: 1 of 3 affinities"),
        ("GPU1\tPIX\t X \tPXB", "row GPU1: 0 of 3 affinities"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_and_its_neighbours_stay(row: str, problem: str) -> None:
    lines = _TABS.split("\n")
    lines[2] = row
    matrix = parse_topo_matrix("\n".join(lines))
    assert matrix.problems == (problem, "2 rows for 3 columns")
    assert ("GPU1", "GPU0") not in matrix.relations
    assert matrix.relations["NIC0", "GPU0"] == "NODE"


def test_a_cut_table_is_incomplete() -> None:
    cut = "\n".join(_TABS.split("\n")[:2])
    assert parse_topo_matrix(cut).problems == ("1 rows for 3 columns",)


def test_names_that_run_together_in_the_head_are_taken_apart() -> None:
    """A narrow terminal prints NIC0 and NIC1 as one word."""
    matrix = parse_topo_matrix(
        "\tGPU0\tNIC0NIC1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-3\nNIC0\tPIX\t X \tPHB\n"
        "NIC1\tSYSPHB\t X \n"
    )
    assert matrix.labels == ("GPU0", "NIC0", "NIC1")
    assert matrix.problems == ("row NIC1: cells run together: SYSPHB", "2 rows for 3 columns")


def test_a_second_table_is_not_mixed_in() -> None:
    matrix = parse_topo_matrix(_TABS + "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0\n")
    assert matrix.problems == ("a second table follows",)
    assert matrix.relations["GPU0", "GPU1"] == "PIX"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no line that begins with GPU0"),
        ("NVIDIA-SMI has failed because it couldn't communicate", "no line that begins"),
        (
            " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n",
            "the table of nvidia-smi topo -p2p, not of topo -m",
        ),
        (" \tGPU0\t\n GPU0\tX\t\n", "no column CPU Affinity"),
        ("\tGPU0\tGPU0\tCPU Affinity\n", "two columns have the same name"),
        (
            "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0\nGPU1\tPIX\t X \t0\n",
            "GPU0 to GPU1 is SYS, but back it is PIX",
        ),
    ],
    ids=["empty", "error", "p2p", "one-p2p", "twice", "contradiction"],
)
def test_what_is_no_such_table_is_refused(text: str, reason: str) -> None:
    with pytest.raises(TopoMatrixError, match=reason):
        parse_topo_matrix(text)


_WORDS = st.sampled_from(
    ["GPU0", "GPU1", "NIC0", "NIC0NIC1", "X", "SYS", "NV4", "PIXPIX", "GNS", "N/A", "0-3,9",
     "CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "\x1b[4m", "NIC0: mlx5_0", "=", "9" * 30]
)  # fmt: skip
_LINES = st.lists(st.lists(_WORDS | st.text(max_size=5), max_size=6).map("\t".join), max_size=8)


@given(_LINES.map("\n".join) | st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        matrix = parse_topo_matrix(text)
    except TopoMatrixError:
        return
    whole = len(matrix.relations) == len(matrix.labels) ** 2
    assert whole or matrix.problems
    for (row, column), relation in matrix.relations.items():
        assert matrix.relations.get((column, row), relation) == relation
        assert (relation == "X") == (row == column)


@given(st.integers(1, 5), st.data())
def test_what_was_printed_is_what_is_read(size: int, data: st.DataObject) -> None:
    names = [f"GPU{number}" for number in range(size)]
    kinds = st.sampled_from(["NV12", "PIX", "PXB", "PHB", "NODE", "SYS"])
    printed = {(name, name): "X" for name in names}
    for place, row in enumerate(names):
        for column in names[:place]:
            printed[row, column] = printed[column, row] = data.draw(kinds)
    between = data.draw(st.sampled_from(["\t", "  ", "       "]))
    lines = [between.join(["", *names, "CPU Affinity"])]
    lines += [between.join([row, *(printed[row, one] for one in names), "0-3"]) for row in names]
    matrix = parse_topo_matrix("\n".join(lines))
    assert matrix.relations == printed
    assert matrix.problems == ()
