"""Datagrams as no tap makes them: good ones, broken in every way that came to mind."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator

from lab.synthetic.tap_datagrams import MISSING, Column, TapSender

_PREFIX = struct.Struct("<4sBBHI")
_MOST_BYTES = 160 * 1024
_STOCK = 500
_FRESH = 0.05
_EXTREMES = (0, 1, 2**31, 2**32 - 1, 2**63 - 1)
_STEP_COLUMNS = {
    "engine": "B",
    "main": "B",
    "wall_us": "q",
    "engine_mono_us": "q",
    "itl_us": "I",
    "outputs": "I",
    "kv_usage_ratio": "f",
    "load_bytes": "q",
    "running": "I",
}
_GAP_COLUMNS = {
    "request": "I",
    "chunk_index": "I",
    "mono_us": "q",
    "itl_us": "I",
    "tokens": "B",
    "body_bytes": "I",
}
_NASTY_TEXTS = (
    '"' + "a" * 70_000 + '"',
    "[" * 5_000 + "]" * 5_000,
    '{"a":' * 2_000 + "1" + "}" * 2_000,
    "1" * 5_000,
    "-1",
    "1e999",
    "NaN",
    "-Infinity",
    "null",
    "true",
    "[]",
    "{}",
    '"\\ud800"',
    '"\\u0000"',
    "18446744073709551616",
    "0.5",
    '[["x","I"],["x","I"]]',
    '[["engine","Z"]]',
    '[["engine"]]',
)
_KEYS = (
    "session", "sequence", "rows", "wall_us", "mono_us", "dropped", "port", "model", "pid",
    "columns", "ttft", "requests", "engine_version", "server", "tap",
)  # fmt: skip


def datagrams(seed: int, mono_us: int, wall_us: int) -> Iterator[bytes]:
    """Yield datagrams without end; the same seed gives the same ones.

    Args:
        seed: Of the dice.
        mono_us: Time around which they claim to be, monotonic.
        wall_us: The same on the wall clock.
    """
    dice = random.Random(seed)
    senders = [TapSender(session=f"s{number}") for number in range(8)]
    stock = [_good(dice, dice.choice(senders), mono_us, wall_us) for _ in range(_STOCK)]
    while True:
        place = dice.randrange(_STOCK)
        if dice.random() < _FRESH:  # good ones take longest to make
            stock[place] = _good(dice, dice.choice(senders), mono_us, wall_us)
        yield dice.choice(_BREAKAGES)(dice, stock[place])[:_MOST_BYTES]


def _good(dice: random.Random, sender: TapSender, mono_us: int, wall_us: int) -> bytes:
    rows = dice.choice((0, 1, 2, 7, 64))
    sender.dropped += dice.random() < 0.01  # noqa: PLR2004 - now and then
    kind = dice.randrange(3)
    if kind == 0:
        ttft = [(dice.randrange(4), wall_us, dice.randrange(10**6)) for _ in range(rows)]
        return sender.steps(_columns(dice, _STEP_COLUMNS, rows, mono_us), wall_us, mono_us, ttft)
    if kind == 1:
        return sender.gaps(_columns(dice, _GAP_COLUMNS, rows, mono_us), wall_us, mono_us)
    return sender.requests([_request(dice, mono_us) for _ in range(rows)], wall_us, mono_us)


def _columns(
    dice: random.Random, codes: dict[str, str], rows: int, mono_us: int
) -> dict[str, Column]:
    return {
        name: (code, [_value(dice, name, code, mono_us) for _ in range(rows)])
        for name, code in codes.items()
    }


def _value(dice: random.Random, name: str, code: str, mono_us: int) -> float:
    if name.endswith("mono_us") and dice.random() < 0.95:  # noqa: PLR2004 - mostly plausible
        return mono_us - dice.randrange(10**6)
    if code == "f":
        return dice.choice((0.5, -1.0, float("inf"), MISSING["f"]))
    limit = int(MISSING[code])
    return min(limit, dice.choice((dice.randrange(100), *_EXTREMES)))


def _request(dice: random.Random, mono_us: int) -> dict[str, object]:
    fields: dict[str, object] = {
        "source": dice.choice(("asgi", "stats")),
        "number": dice.choice((None, dice.randrange(500), -1, 2**40)),
        "id": dice.choice((None, f"cmpl-{dice.randrange(500)}-0", f"cmpl-{dice.randrange(500)}")),
        "engine": dice.choice((None, 0, 1, 300)),
        "finish": dice.choice((None, "stop", "nonsense", 5)),
        "end_mono_us": dice.choice((None, mono_us, 2**61, "late")),
        "prompt_tokens": dice.choice((None, 17, -3, 2**33, 1.5)),
        "e2e_us": dice.choice((None, 1_000, 2**62)),
        "status": dice.choice((None, 200, 70_000)),
    }
    for name in dice.sample(sorted(fields), dice.randrange(3)):
        del fields[name]
    return fields


def _leave(dice: random.Random, good: bytes) -> bytes:
    del dice
    return good


def _flip(dice: random.Random, good: bytes) -> bytes:
    data = bytearray(good)
    for _ in range(dice.choice((1, 1, 3, 20))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _cut(dice: random.Random, good: bytes) -> bytes:
    return good[: dice.randrange(len(good))]


def _extend(dice: random.Random, good: bytes) -> bytes:
    return good + dice.randbytes(dice.choice((1, 8, 1_000, 140_000)))


def _repeat_part(dice: random.Random, good: bytes) -> bytes:
    begin = dice.randrange(len(good))
    return good[:begin] + good[begin : begin + 64] * dice.randrange(1, 50) + good[begin:]


def _noise(dice: random.Random, good: bytes) -> bytes:
    return dice.randbytes(dice.randrange(len(good) + 1))


def _spoil_prefix(dice: random.Random, good: bytes) -> bytes:
    magic, version, kind, zero, length = _PREFIX.unpack_from(good)
    version = dice.choice((version, 0, 2, 255))
    kind = dice.choice((kind, 0, 1, 2, 3, 4, 255))
    length = dice.choice((length, 0, length - 8, length + 8, 2**31, 2**32 - 1))
    return _PREFIX.pack(magic, version, kind, dice.choice((zero, 1)), length) + good[_PREFIX.size :]


def _spoil_header(dice: random.Random, good: bytes) -> bytes:
    """Put something nasty under one of the header's keys; everything else stays right."""
    *_, kind, _, length = _PREFIX.unpack_from(good)
    header = json.loads(good[_PREFIX.size : _PREFIX.size + length])
    key = dice.choice(_KEYS)
    nasty = dice.choice(_NASTY_TEXTS)
    header[key] = "@nasty@"
    text = json.dumps(header).replace('"@nasty@"', nasty).encode()
    text += b" " * (-(_PREFIX.size + len(text)) % 8)
    prefix = _PREFIX.pack(b"SSTP", 1, kind, 0, len(text))
    return prefix + text + good[_PREFIX.size + length :]


_BREAKAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _leave, _leave, _flip, _flip, _cut, _extend, _repeat_part, _noise, _spoil_prefix,
    _spoil_header, _spoil_header, _spoil_header,
)  # fmt: skip
