"""What polling does to decoding: step times with the collector's polls at several paces."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from collector.edges.nvml_process import NoAnswerError
from lab.hardware.answer import Answer
from lab.hardware.load import Load
from lab.hardware.subject import Subject
from lab.quantity import rank, show_us

QUESTION = "Does polling slow down decoding?"
ARMS: Mapping[str, float] = {"off": 0, "off again": 0, "1 Hz": 1, "5 Hz": 5, "10 Hz": 10}
"""Polls per second; the second arm without polls shows how far two equal arms are apart."""
_SEED = 5


def examine(subject: Subject) -> Answer:
    """Answer it; see `lab.hardware.answer.Examine` for errors."""
    load = subject.need_load()
    blocks: dict[str, list[list[float]]] = {arm: [] for arm in ARMS}
    order = random.Random(_SEED)
    for _ in range(subject.blocks):
        for arm in order.sample(list(ARMS), len(ARMS)):
            blocks[arm].append(_decode(load, subject.ask_link, ARMS[arm], subject.seconds / 2))
    head = ("polls", "steps", "p50", "p99", "p50 against off", "p99 against off")
    rows = [_row(arm, found, blocks["off"]) for arm, found in blocks.items()]
    return Answer(QUESTION, judge(blocks), head, rows)


def judge(blocks: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Return which paces differ from none by more than two arms without polls do."""
    verdicts = []
    for name, q in (("median", 0.5), ("p99", 0.99)):
        noise = abs(_ratio(blocks["off again"], blocks["off"], q) - 1)
        slow = [
            f"{arm} ({ratio - 1:+.1%})"
            for arm in ARMS
            if ARMS[arm] and (ratio := _ratio(blocks[arm], blocks["off"], q)) > 1 + 2 * noise
        ]
        what = f"slower at {', '.join(slow)}" if slow else "no pace is separable from none"
        verdicts.append(f"{name} of step times: {what} (two arms without polls: {noise:.1%})")
    return f"{'; '.join(verdicts)}."


def _row(arm: str, blocks: Sequence[Sequence[float]], off: Sequence[Sequence[float]]) -> list[str]:
    steps = [step for block in blocks for step in block]
    ratios = [f"{_ratio(blocks, off, q) - 1:+.2%}" for q in (0.5, 0.99)]
    return [arm, str(len(steps)), show_us(rank(steps, 0.5)), show_us(rank(steps, 0.99)), *ratios]


def _ratio(blocks: Sequence[Sequence[float]], off: Sequence[Sequence[float]], q: float) -> float:
    """Return a quantile over that without polls, the median over pairs of near blocks."""
    pairs = zip(blocks, off, strict=True)
    return statistics.median(rank(block, q) / rank(without, q) for block, without in pairs)


def _decode(
    load: Load, poll: Callable[[], object], per_second: float, seconds: float
) -> list[float]:
    """Return step times in microseconds of one block."""
    done = threading.Event()
    poller = threading.Thread(target=_poll, args=(poll, per_second, done))
    load.begin_decoding(seconds)
    if per_second:
        poller.start()
    try:
        return load.steps_us()
    finally:
        done.set()
        if per_second:
            poller.join()


def _poll(poll: Callable[[], object], per_second: float, done: threading.Event) -> None:
    """Poll at a pace until it is done; an answer that fails is one that was asked for."""
    due_s = time.monotonic()
    while not done.wait(max(0.0, due_s - time.monotonic())):
        due_s += 1 / per_second
        try:
            poll()
        except NoAnswerError:
            continue
