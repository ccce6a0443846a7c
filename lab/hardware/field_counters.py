"""Value type and wrap of fields 197 and 198, watched while a known load runs."""

from __future__ import annotations

from collector.edges.nvml_fields import PCIE_RX_BYTES, PCIE_TX_BYTES
from lab.hardware.answer import Answer, UnansweredError
from lab.hardware.counters import WRAP_BYTES, Walk, poll_fields, read_fields, walk_of
from lab.hardware.load import Carried
from lab.hardware.subject import Subject
from lab.quantity import rank

QUESTION = "Which type have fields 197 and 198, and do they wrap?"
_TYPES = (  # nvmlValueType_t
    "double",
    "unsigned int",
    "unsigned long",
    "unsigned long long",
    "signed long long",
    "signed int",
    "unsigned short",
)
_MOST_RATIO = 1.5
"""Counted over copied: with headers 1.1; a missed wrap or another base is further off."""


def examine(subject: Subject) -> Answer:
    """Answer it; see `lab.hardware.answer.Examine` for errors."""
    read_fields(subject.device)
    types = _read_types(subject)
    load = subject.need_load()
    rows, verdicts = [], []
    for direction, number in (("rx", 198), ("tx", 197)):
        load.begin(direction, subject.seconds)
        counts = poll_fields(subject.device, 0.9 * subject.seconds)
        carried = load.carried()
        walk = walk_of(counts, direction)
        verdicts.append(judge(walk, carried))
        rows.append([f"{number} ({direction})", types[number], *_figures(walk, carried)])
    verdict = f"Field 198 (rx): {verdicts[0]}. Field 197 (tx): {verdicts[1]}."
    head = (
        *("field", "value type", "wraps", "highest value", "counted GB/s", "copied GB/s"),
        "value changes every (median)",
    )
    return Answer(QUESTION, verdict, head, rows)


def judge(walk: Walk, carried: Carried) -> str:
    """Return whether a counter wraps, as far as it was seen."""
    counted = walk.total / walk.seconds
    ratio = counted / carried.bytes_per_second
    if walk.total == 0:
        return "it stood still while copies ran: broken"
    if walk.highest >= WRAP_BYTES:
        return f"more than 32 bits: {walk.highest} was seen, {walk.wraps} times it went back"
    if walk.wraps == 0:
        return f"not known: it did not wrap in {walk.seconds:.1f} s, highest value {walk.highest}"
    if not 1 / _MOST_RATIO < ratio < _MOST_RATIO:
        return f"it went back {walk.wraps} times, but at 2^32 it would be {ratio:.2f} x the copies"
    return f"it wraps at 2^32, {walk.wraps} times in {walk.seconds:.1f} s"


def _figures(walk: Walk, carried: Carried) -> list[str]:
    every = rank(walk.steps_s, 0.5)
    return [
        str(walk.wraps),
        str(walk.highest),
        f"{walk.total / walk.seconds / 1e9:.2f}",
        f"{carried.bytes_per_second / 1e9:.2f}",
        f"{1e3 * every:.1f} ms" if walk.steps_s else "never twice",
    ]


def _read_types(subject: Subject) -> dict[int, str]:
    """Return the names of the types by field.

    Raises:
        NvmlError: The call failed.
        UnansweredError: A type is none that we know.
    """
    wanted = (PCIE_TX_BYTES, PCIE_RX_BYTES)
    entries = subject.device.ask("nvmlDeviceGetFieldValues", wanted)
    found = {}
    for field, entry in zip(wanted, entries, strict=True):
        if not 0 <= entry.valueType < len(_TYPES):
            raise UnansweredError(f"field {field.number} has value type {entry.valueType}")
        found[field.number] = _TYPES[entry.valueType]
    return found
