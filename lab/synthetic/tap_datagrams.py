"""Datagrams as a tap makes them, after docs/tap-wire.md: no code of tap or collector is in it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

STEPS, GAPS, REQUESTS = 1, 2, 3
"""Kinds of datagrams."""

MISSING = {"B": 2**8 - 1, "H": 2**16 - 1, "I": 2**32 - 1, "q": 2**63 - 1, "f": float("nan")}
"""What stands for a missing value, by code."""

_PREFIX = struct.Struct("<4sBBHI")
_NUMPY = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "b": "i1", "h": "<i2", "i": "<i4"}
_NUMPY |= {"q": "<i8", "f": "<f4", "d": "<f8"}

Column = tuple[str, Sequence[float] | np.ndarray]
"""Code and values."""


@dataclass(slots=True)
class TapSender:
    """One life of a tap: counts its datagrams.

    Attributes:
        session: Its name.
        facts: Header keys that stay the same: port, model, server, pid.
        dropped: Records it has dropped since its start.
    """

    session: str = "a1"
    facts: dict[str, object] = field(
        default_factory=lambda: {"tap": "0.1.0", "pid": 7, "port": 8000, "model": "tiny"}
    )
    dropped: int = 0
    _sequences: dict[int, int] = field(default_factory=dict)

    def steps(
        self,
        columns: Mapping[str, Column],
        wall_us: int,
        mono_us: int,
        ttft: Sequence[tuple[int, int, int]] = (),
    ) -> bytes:
        """Return a datagram of steps; ``ttft`` has (engine, wall_us, ttft_us) of first tokens."""
        listed = [list(values) for values in zip(*ttft, strict=True)] or [[], [], []]
        named = dict(zip(("engine", "wall_us", "ttft_us"), listed, strict=True))
        return encode(STEPS, {**self._header(STEPS, wall_us, mono_us), "ttft": named}, columns)

    def gaps(self, columns: Mapping[str, Column], wall_us: int, mono_us: int) -> bytes:
        """Return a datagram of chunks."""
        return encode(GAPS, self._header(GAPS, wall_us, mono_us), columns)

    def requests(
        self, requests: Sequence[Mapping[str, object]], wall_us: int, mono_us: int
    ) -> bytes:
        """Return a datagram that tells of requests."""
        header = self._header(REQUESTS, wall_us, mono_us)
        return encode(REQUESTS, {**header, "rows": len(requests), "requests": list(requests)})

    def _header(self, kind: int, wall_us: int, mono_us: int) -> dict[str, object]:
        sequence = self._sequences.get(kind, 0)
        self._sequences[kind] = sequence + 1
        return {
            **self.facts,
            "session": self.session,
            "sequence": sequence,
            "dropped": self.dropped,
            "wall_us": wall_us,
            "mono_us": mono_us,
        }


def encode(
    kind: int,
    header: Mapping[str, object],
    columns: Mapping[str, Column] | None = None,
    *,
    version: int = 1,
) -> bytes:
    """Return a datagram.

    Args:
        kind: What it carries.
        header: Its header; ``rows`` and ``columns`` are added where they lack.
        columns: Its columns by name.
        version: Of the wire.
    """
    columns = columns or {}
    rows = max((len(values) for _, values in columns.values()), default=0)
    layout = [[name, code] for name, (code, _) in columns.items()]
    text = json.dumps({"rows": rows, "columns": layout, **header}).encode()
    text += b" " * (-(_PREFIX.size + len(text)) % 8)
    prefix = _PREFIX.pack(b"SSTP", version, kind, 0, len(text))
    return prefix + text + b"".join(_packed(code, values) for code, values in columns.values())


def _packed(code: str, values: Sequence[float] | np.ndarray) -> bytes:
    data = np.asarray(values, dtype=_NUMPY[code]).tobytes()
    return data + bytes(-len(data) % 8)
