"""The topology as people read it in a terminal: a tree of plain text, then the findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collector.source import Row
from collector.topology_findings import Finding, LinkShape
from collector.topology_look import Look
from collector.topology_rows import describe_look
from stallscope.commands.text_table import cell_text, text_table

_COLUMNS = ("what", "name", "link now", "link at most", "node", "CPUs", "memory of")
_MOST_CHARACTERS = 32
_NOTHING = "-"


def topology_text(look: Look, findings: Sequence[Finding]) -> str:
    """Return the tree and the findings.

    Args:
        look: What was there.
        findings: What it showed.
    """
    tree = text_table(_COLUMNS, list(_lines(look)))
    said = [f"{finding.severity:8}{cell_text(finding.text)}" for finding in findings]
    if look.missing():
        said.append(f"{'part':8}{look.missing()}")
    return f"{tree}\n{chr(10).join(said or ['Nothing stands out.'])}\n"


def _lines(look: Look) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each line, parents before children."""
    rows = describe_look(look)
    known = {row["address"] for row in rows}
    children: dict[object, list[Row]] = {}
    for row in rows:
        parent = row.get("parent")
        children.setdefault(parent if parent in known else None, []).append(row)
    waiting = [(0, row) for row in reversed(children.get(None, []))]
    while waiting:
        depth, row = waiting.pop()
        yield _cells(row, depth, look)
        waiting += [(depth + 1, child) for child in reversed(children.get(row["address"], []))]


def _cells(row: Row, depth: int, look: Look) -> tuple[str, ...]:
    """Return one line; what does not apply to a kind of node is a dash."""
    numa = row["kind"] == "numa"
    return (
        "  " * depth + _title(row, look),
        _text(row.get("name")),
        _link(row, "link_generation", "link_width"),
        _link(row, "max_link_generation", "max_link_width"),
        _NOTHING if numa else _text(row.get("numa_node")),
        "none" if numa and row.get("cpus") is None else _shorten(_text(row.get("cpus"))),
        _text(row.get("memory_nodes")),
    )


def _title(row: Row, look: Look) -> str:
    address, kind = str(row["address"]), str(row["kind"])
    if kind in {"numa", "process"}:
        return address
    gpu = look.gpus.get(address)
    words: Mapping[str, str] = {"gpu": "GPU" if gpu is None else f"GPU {gpu.index}"}
    return f"{words.get(kind, kind)} {address}"


def _link(row: Row, generation: str, width: str) -> str:
    numbers = (row.get(generation), row.get(width))
    shape = LinkShape(*(number if isinstance(number, int) else None for number in numbers))
    return str(shape) or _NOTHING


def _text(value: object) -> str:
    return _NOTHING if value is None else str(value)


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
