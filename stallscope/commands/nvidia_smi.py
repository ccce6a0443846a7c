"""What nvidia-smi says, asked once for one command; a collector never waits for it."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.edges.timed_program import ProgramError, run_beside
from collector.pci_text import normalise_address
from collector.topology_look import KnownGpu
from collector.whole_number import parse_whole

_LIMIT_S = 5.0
_MOST_SAID = 200
_AS_ROWS = "--format=csv,noheader"
_QUESTIONS: Mapping[str, Sequence[str]] = {
    "gpus": ("--query-gpu=index,uuid,pci.bus_id", _AS_ROWS),
    "processes": ("--query-compute-apps=gpu_uuid,pid", _AS_ROWS),
    "matrix": ("topo", "-m"),
}


class _NoAnswerError(Exception):
    """nvidia-smi said no; the message is what it said."""


@dataclass(frozen=True, slots=True)
class NvidiaSmi:
    """What it said.

    Attributes:
        gpus: GPUs by PCI address, with all processes that compute on them.
        matrix: Its table of relations, as printed; empty when it did not print one.
        problems: What it said instead of an answer.
    """

    gpus: Mapping[str, KnownGpu] = field(default_factory=dict)
    matrix: str = ""
    problems: tuple[str, ...] = ()


def ask_nvidia_smi() -> NvidiaSmi | None:
    """Return what nvidia-smi says; None where it is not installed.

    It may hang together with its driver: each question has five seconds, and after the first that
    took longer no other is asked.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    answers = dict.fromkeys(_QUESTIONS, "")
    problems = []
    for name, words in _QUESTIONS.items():
        try:
            answers[name] = _ask(program, words)
        except _NoAnswerError as error:
            problems.append(str(error))
        except ProgramError as error:
            problems.append(str(error))
            break
    gpus = parse_gpus(answers["gpus"], answers["processes"])
    return NvidiaSmi(gpus, answers["matrix"], tuple(dict.fromkeys(problems)))


def parse_gpus(gpus: str, processes: str) -> Mapping[str, KnownGpu]:
    """Return GPUs by PCI address from two tables without a head; rows that do not fit are left out.

    Args:
        gpus: Index, UUID and bus id.
        processes: UUID and process id.
    """
    pids: dict[str, set[int]] = {}
    for uuid, number in _split(processes, 2):
        pid = parse_whole(number)
        if pid is not None:
            pids.setdefault(uuid, set()).add(pid)
    known = {}
    for number, uuid, bus_id in _split(gpus, 3):
        index, address = parse_whole(number), normalise_address(bus_id)
        if index is not None and address is not None:
            known[address] = KnownGpu(uuid, index, frozenset(pids.get(uuid, ())))
    return known


def _split(table: str, columns: int) -> Iterator[list[str]]:
    """Yield the rows of a table that have so many cells."""
    for row in csv.reader(table.splitlines(), skipinitialspace=True):
        if len(row) == columns:
            yield [cell.strip() for cell in row]


def _ask(program: str, words: Sequence[str]) -> str:
    """Return what one call prints.

    Raises:
        _NoAnswerError: It ended with an error.
        ProgramError: It could not be started, or did not end in time.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    done = run_beside([program, *words], environment, _LIMIT_S, lambda: None)
    if done.status != 0:
        said = " ".join((done.output + done.errors).split())[:_MOST_SAID]
        msg = f"nvidia-smi ended with {done.status}: {said or 'without a word'}"
        raise _NoAnswerError(msg)
    return done.output
