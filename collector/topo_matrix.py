"""The table of ``nvidia-smi topo -m`` as text to relations. Pure; a second opinion, never more.

It is printed for people: with tabs into a pipe, with blanks where it was pasted, underlined where a
terminal was near; columns came and went with driver versions. So columns are found by the text in
their head, and a row that does not fit the head is refused with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from collector.process_text import parse_cpu_list
from collector.whole_number import parse_whole

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_HEADS = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")  # the last since driver 535 or so
_FIRST_LABEL = re.compile(r"(?:GPU\d+)+")
_GLUED_LABELS = re.compile(r"(?:GPU\d+|NIC\d+){2,}")
_LABEL = re.compile(r"GPU\d+|NIC\d+")
_GLUED_CELLS = re.compile(r"(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS){2,}")
_RELATION = re.compile(r"[A-Z][A-Z0-9]*")
_LEGEND = re.compile(r"\s*(NIC\d+): (\S+)\s*")
_PEER_TO_PEER = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}


class TopoMatrixError(ValueError):
    """A text is not the table of ``nvidia-smi topo -m``, or contradicts itself."""


@dataclass(frozen=True, slots=True)
class TopoMatrix:
    """What the table says.

    Attributes:
        labels: GPUs and network cards in the order of the columns.
        relations: ``NV12``, ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS`` or what else was there, by
            row and column; of rows that could be read.
        cpus: CPUs near a GPU.
        numa_nodes: NUMA nodes near a GPU.
        gpu_numa_nodes: NUMA node that the memory of a GPU is, on Grace.
        names: RDMA device behind a label such as NIC0.
        problems: Why it is incomplete; empty when every row is there.
    """

    labels: tuple[str, ...]
    relations: Mapping[tuple[str, str], str]
    cpus: Mapping[str, frozenset[int]]
    numa_nodes: Mapping[str, frozenset[int]]
    gpu_numa_nodes: Mapping[str, int]
    names: Mapping[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Head:
    """The line above the rows."""

    labels: tuple[str, ...]
    affinities: tuple[str, ...]


class _RowError(ValueError):
    """A row does not fit; the message says why."""


def parse_topo_matrix(text: str) -> TopoMatrix:
    """Return what a table of ``nvidia-smi topo -m`` says.

    Raises:
        TopoMatrixError: It is another table, or no table, or two rows contradict each other.
    """
    lines = _ESCAPE.sub("", text).splitlines()
    start, head = _find_head(lines)
    rows, problems = _split_rows(lines[start + 1 :], head)
    relations = {
        (row, column): cell
        for row, cells in rows.items()
        for column, cell in zip(head.labels, cells, strict=False)
    }
    _check_symmetry(head.labels, relations)
    affinity = _split_affinities(head, rows)
    if len(rows) < len(head.labels):
        problems.append(f"{len(rows)} rows for {len(head.labels)} columns")
    return TopoMatrix(
        labels=head.labels,
        relations=relations,
        cpus=_parse_lists(affinity.get("CPU Affinity", {})),
        numa_nodes=_parse_lists(affinity.get("NUMA Affinity", {})),
        gpu_numa_nodes=_parse_numbers(affinity.get("GPU NUMA ID", {})),
        names=dict(_parse_legend(lines)),
        problems=tuple(problems),
    )


def _find_head(lines: Sequence[str]) -> tuple[int, _Head]:
    """Return the number of the line above the rows, and what it says.

    Raises:
        TopoMatrixError: There is none, or it is that of another table.
    """
    for number, line in enumerate(lines):
        if _is_head(line):
            return number, _parse_head(line, lines[number + 1 :])
    msg = "no line that begins with GPU0 and names the columns"
    raise TopoMatrixError(msg)


def _is_head(line: str) -> bool:
    """Return whether a line names columns; a row begins like it, but goes on with a relation."""
    first, second, *_ = [*line.split(), "", ""]
    if not _FIRST_LABEL.fullmatch(first):
        return False
    return not second or _LABEL.match(second) is not None or _HEADS.search(line) is not None


def _parse_head(line: str, below: Sequence[str]) -> _Head:
    affinities = tuple(_HEADS.findall(line))
    if "CPU Affinity" not in affinities:
        msg = "no column CPU Affinity: not the table of nvidia-smi topo -m"
        if any(_PEER_TO_PEER & set(row.split()[1:]) for row in below):
            msg = "the table of nvidia-smi topo -p2p, not of topo -m"
        raise TopoMatrixError(msg)
    words = line[: line.index("CPU Affinity")].split()
    labels = tuple(label for word in words for label in _split_label(word))
    if len(set(labels)) < len(labels):
        msg = "two columns have the same name"
        raise TopoMatrixError(msg)
    return _Head(labels, affinities)


def _split_label(word: str) -> Sequence[str]:
    """Return the labels in a word of the head: a narrow terminal glues two of them together."""
    return _LABEL.findall(word) if _GLUED_LABELS.fullmatch(word) else (word,)


def _split_rows(lines: Sequence[str], head: _Head) -> tuple[dict[str, Sequence[str]], list[str]]:
    """Return the cells of each row that fits the head, and what is wrong with the others."""
    rows: dict[str, Sequence[str]] = {}
    problems = []
    for line in lines:
        label, *cells = line.split() or [""]
        if label not in head.labels:
            continue
        if cells and _is_head(line):
            problems.append("a second table follows")
            break
        try:
            _check_row(label, cells, head)
        except _RowError as error:
            problems.append(f"row {label}: {error}")
        else:
            rows.setdefault(label, cells)
    return rows, problems


def _check_row(label: str, cells: Sequence[str], head: _Head) -> None:
    """Refuse a row whose cells do not stand below the columns of the head.

    Raises:
        _RowError: Why.
    """
    glued = next(filter(_GLUED_CELLS.fullmatch, cells), None)
    if glued is not None:
        msg = f"cells run together: {glued}"
        raise _RowError(msg)
    relations = list(zip(head.labels, cells, strict=False))
    known = [_RELATION.fullmatch(cell) is not None for _, cell in relations]
    if len(known) < len(head.labels) or not all(known):
        msg = f"{sum(known)} of {len(head.labels)} relations"
        raise _RowError(msg)
    if any((cell == "X") != (column == label) for column, cell in relations):
        msg = "X stands not below its own name"
        raise _RowError(msg)
    rest = len(cells) - len(relations)
    if rest not in {0, len(head.affinities)} or (rest == 0 and label.startswith("GPU")):
        msg = f"{rest} of {len(head.affinities)} affinities"
        raise _RowError(msg)


def _check_symmetry(labels: Sequence[str], relations: Mapping[tuple[str, str], str]) -> None:
    """Refuse a table that says one thing in a row and another in the column.

    Raises:
        TopoMatrixError: It does.
    """
    for one, other in combinations(labels, 2):
        there, back = relations.get((one, other)), relations.get((other, one))
        if None not in {there, back} and there != back:
            msg = f"{one} to {other} is {there}, but back it is {back}"
            raise TopoMatrixError(msg)


def _split_affinities(
    head: _Head, rows: Mapping[str, Sequence[str]]
) -> Mapping[str, Mapping[str, str]]:
    """Return the cells right of the relations, by column and row; cards have none."""
    return {
        column: {label: cells[place] for label, cells in rows.items() if place < len(cells)}
        for place, column in enumerate(head.affinities, start=len(head.labels))
    }


def _parse_lists(cells: Mapping[str, str]) -> Mapping[str, frozenset[int]]:
    """Return lists such as ``0-55,112-167``; those that are ``N/A`` are left out."""
    return {label: numbers for label, cell in cells.items() if (numbers := parse_cpu_list(cell))}


def _parse_numbers(cells: Mapping[str, str]) -> Mapping[str, int]:
    parsed = {label: parse_whole(cell) for label, cell in cells.items()}
    return {label: number for label, number in parsed.items() if number is not None}


def _parse_legend(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield label and device of lines such as ``NIC0: mlx5_0``."""
    for line in lines:
        match = _LEGEND.fullmatch(line)
        if match is not None:
            yield match[1], match[2]
