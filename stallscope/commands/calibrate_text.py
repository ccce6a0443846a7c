"""What `stallscope calibrate` found out, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.calibration.one_gpu import Calibrated, Outcome
from stallscope.commands.text_table import cell_text, text_table

_GB = 1e9
_ALERT_RATIO = 0.85
"""Saturation at which somebody is woken."""
_HEAD = (
    "gpu",
    "model",
    "link",
    "direction",
    "raw GB/s",
    "default GB/s",
    "measured GB/s",
    "% of raw",
    "both at once GB/s",
    "85 % is GB/s",
)
_WORDS = {
    Outcome.MEASURED: "",
    Outcome.BUSY: "was left alone, it is at work: ",
    Outcome.NOT_APPLICABLE: "has no link to calibrate: ",
    Outcome.FAILED: "could not be calibrated: ",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One GPU and what became of its figures.

    Attributes:
        done: What became of it.
        is_stored: Whether the figures are in the lake.
        not_stored: Why they are not, in sentences.
    """

    done: Calibrated
    is_stored: bool = False
    not_stored: str = ""


def as_objects(results: Sequence[Told]) -> list[dict[str, object]]:
    """Return one object a GPU; rates in bytes per second."""
    return [
        {
            "index": told.done.gpu.index,
            "uuid": told.done.gpu.uuid,
            "model": told.done.gpu.model,
            "driver": told.done.gpu.driver,
            "outcome": told.done.outcome,
            "reason": told.done.reason,
            "tool": None if told.done.measured is None else told.done.measured.tool,
            "link_generation": None if told.done.state is None else told.done.state.generation,
            "link_width": None if told.done.state is None else told.done.state.width,
            "directions": {line.direction: line.as_object() for line in _lines(told.done)},
            "stored": told.is_stored,
            "not_stored": told.not_stored,
        }
        for told in results
    ]


def as_text(results: Sequence[Told], lake: Path, seconds: float) -> str:
    """Return a table of what was measured, and a line on whatever needs one.

    Args:
        results: What became of each GPU.
        lake: Where the figures are stored.
        seconds: About how long one GPU takes.
    """
    rows = [line.as_row(told.done) for told in results for line in _lines(told.done)]
    parts = [text_table(_HEAD, rows)] if rows else []
    parts += [f"{line}\n" for line in _remarks(results, seconds)]
    parts += [f"{line}\n" for line in _ending(results, lake)]
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class _Line:
    """One direction; bytes per second, None for what is not known."""

    direction: str
    raw: float | None
    default: float | None
    alone: float
    together: float | None

    def as_object(self) -> dict[str, float | None]:
        return {
            "raw_bytes_per_second": self.raw,
            "default_ceiling_bytes_per_second": self.default,
            "bytes_per_second": self.alone,
            "together_bytes_per_second": self.together,
        }

    def as_row(self, done: Calibrated) -> tuple[object, ...]:
        return (
            done.gpu.index,
            done.gpu.model,
            str(done.state),
            {"rx": "H2D", "tx": "D2H"}[self.direction],
            _gb(self.raw),
            _gb(self.default),
            _gb(self.alone),
            None if self.raw is None else round(100 * self.alone / self.raw, 1),
            _gb(self.together),
            _gb(_ALERT_RATIO * self.alone),
        )


def _lines(done: Calibrated) -> list[_Line]:
    if done.measured is None or done.state is None:
        return []
    state, rates = done.state, done.measured.rates
    return [
        _Line("rx", state.raw, state.usable, rates.rx, rates.rx_together),
        _Line("tx", state.raw, state.usable, rates.tx, rates.tx_together),
    ]


def _gb(rate: float | None) -> float | None:
    return None if rate is None else round(rate / _GB, 2)


def _remarks(results: Sequence[Told], seconds: float) -> list[str]:
    """Return a line for each GPU that was not measured or is odd."""
    lines = [
        f"GPU {done.gpu.index} {_WORDS[done.outcome]}{cell_text(done.reason)}."
        for done in (told.done for told in results)
        if done.reason
    ]
    if any(told.done.outcome is Outcome.BUSY for told in results):
        lines.append(
            f"Calibrating takes about {seconds:.0f} s of a link away from its engine; "
            "--force does it all the same."
        )
    return lines


def _ending(results: Sequence[Told], lake: Path) -> list[str]:
    """Return with what was measured, and where the figures are now."""
    tools = sorted({told.done.measured.tool for told in results if told.done.measured})
    lines = [f"Measured with {cell_text(', '.join(tools))}."] if tools else []
    if any(told.is_stored for told in results):
        lines.append(f"Stored in {lake}: a running collector goes by them within a minute.")
    reasons = dict.fromkeys(told.not_stored for told in results if told.not_stored)
    return lines + [f"Not stored: {reason}" for reason in reasons]
