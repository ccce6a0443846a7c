"""The report as one page of Markdown."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lab.hardware.answer import Answer

_STAND_IN = (
    "> **Made with the stand-in driver of lab/nvml, not with hardware.** Its figures say nothing "
    "about any GPU.\n\n"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was made.

    Attributes:
        model: Product name of the GPU.
        driver: Driver version.
        library: NVML version.
        link: Highest link of card and slot, in words.
        gpus: How many GPUs there are.
        copies: What copied, with its version; in words why nothing did.
        day: When, as YYYY-MM-DD.
        is_stand_in: The driver is our own make-believe one.
    """

    model: str
    driver: str
    library: str
    link: str
    gpus: int
    copies: str
    day: str
    is_stand_in: bool


def render(machine: Machine, answers: Sequence[Answer]) -> str:
    """Return the page."""
    facts = {
        "GPU": f"{machine.model}, {machine.link}, one of {machine.gpus}",
        "Driver": f"{machine.driver}, NVML {machine.library or 'unknown'}",
        "Host": f"Linux {platform.release()}, {os.cpu_count()} CPUs",
        "Copies by": machine.copies,
        "Date": machine.day,
    }
    title = f"# {machine.model}, driver {machine.driver}\n\n"
    lines = "".join(f"- {name}: {_cell(value)}\n" for name, value in facts.items())
    return (
        title
        + (_STAND_IN if machine.is_stand_in else "")
        + lines
        + "".join(f"\n{_section(answer)}" for answer in answers)
    )


def file_name(model: str, driver: str) -> str:
    """Return the name of a report, such as ``nvidia-h100-80gb-hbm3-580.95.05.md``."""
    plain = re.sub(r"[^a-z0-9.]+", "-", f"{model}-{driver}".lower()).strip("-")
    return f"{plain}.md"


def _section(answer: Answer) -> str:
    if answer.why_not:
        return f"## {answer.question}\n\nNot answered: {_cell(answer.why_not)}\n"
    parts = [f"## {answer.question}\n\n{_cell(answer.verdict)}\n"]
    if answer.rows:
        parts.append(f"\n{_line(answer.head)}{_line(['---'] * len(answer.head))}")
        parts += [_line(row) for row in answer.rows]
    return "".join(parts)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |\n"


def _cell(text: str) -> str:
    """Return text that neither ends a cell nor a line: names come from drivers and libraries."""
    return " ".join(text.replace("|", "\\|").split())
