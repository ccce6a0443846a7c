"""Blocks of text, figures and tables, as the sheet component reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dashboard.answers import Run


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or two.

    Attributes:
        runs: What to say.
        word: A word in front of it, for example a severity; empty for none.
        tone: warn, or empty for ink.
    """

    runs: tuple[Run, ...]
    word: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its name, what it is held against, and how it came about, for hover."""

    name: str
    value: str
    under: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """A column of a table; numbers are set to the right, wide columns may break words."""

    text: str
    num: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What stands in it.
        sub: A smaller line below.
        shape: dot, ring, dotted, triangle, barred or cross; empty for none.
        tone: ok, warn or bad; empty for ink.
        indent: Steps to the right, first column only.
        pick: What of the page's URL changes when the reader picks the cell, an empty text takes a
            name out; empty for a cell that cannot be picked.
    """

    text: str
    sub: str = ""
    shape: str = ""
    tone: str = ""
    indent: int = 0
    pick: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, one cell per column."""

    cells: tuple[Cell, ...]
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table, and what to say when it has no rows."""

    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another page of ours, or to this one with another URL.

    Attributes:
        text: What stands on it.
        page: Path of the page; of no meaning with ``pick``.
        query: SQL for the editor.
        pick: As of a `Cell`.
    """

    text: str
    page: str = ""
    query: str = ""
    pick: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What the sheet component draws, from top to bottom; every part may be empty.

    With ``arrives`` it scrolls itself into view when it is drawn for the first time.
    """

    title: str = ""
    aside: str = ""
    text: Sequence[Paragraph] = ()
    figures: Sequence[Figure] = ()
    table: Table | None = None
    notes: Sequence[tuple[Run, ...]] = ()
    links: Sequence[Link] = ()
    arrives: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)
