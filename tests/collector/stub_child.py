"""Stands in for the NVML child: greets with its process id as driver version, then misbehaves.

Run as a program: ``python stub_child.py BEHAVIOUR [FOLDER]``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from collector.nvml.messages import (
    GpuFacts,
    GpuState,
    Greeting,
    LinkAnswer,
    LinkSample,
    StateAnswer,
    StateSample,
    Trouble,
    TroubleKind,
    encode,
)


def _say(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _greet() -> None:
    _say(encode(Greeting(driver=str(os.getpid()), expected_gpus=0)))


def _serve() -> None:
    for line in sys.stdin.buffer:
        if line == b"link\n":
            sample = LinkSample("GPU-0", GpuState.OK, "", None, 1, 2)
            _say(encode(LinkAnswer(samples=(sample,))))
        elif line == b"state\n":
            _say(encode(StateAnswer(samples=(StateSample("GPU-0", GpuState.OK, "", 1, 2),))))


def _work() -> None:
    _greet()
    _serve()


def _hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _greet()
    time.sleep(600)


def _never_start() -> None:
    time.sleep(600)


def _start_slowly() -> None:
    time.sleep(0.6)
    _work()


def _say_garbage() -> None:
    _say(b"NVRM: something is wrong\n")
    time.sleep(600)


def _cut_answer() -> None:
    _greet()
    sys.stdin.buffer.readline()
    _say(encode(LinkAnswer())[:10])


def _crash() -> None:
    _greet()
    sys.stdin.buffer.readline()
    os.kill(os.getpid(), signal.SIGSEGV)


def _end_with_words() -> None:
    sys.stderr.write("noise " * 1_000 + "\nOSError: the last\nwords\n")
    sys.exit(3)


def _complain_much() -> None:
    _greet()
    for _ in sys.stdin.buffer:
        sys.stderr.write("x" * 300_000)
        sys.stderr.flush()
        _say(encode(LinkAnswer()))


def _answer_twice() -> None:
    _greet()
    for _ in sys.stdin.buffer:
        _say(2 * encode(LinkAnswer()))


def _never_end_a_line() -> None:
    _greet()
    sys.stdin.buffer.readline()
    while True:
        _say(b"1" * 65_536)


def _have_trouble() -> None:
    _say(encode(Greeting(Trouble(TroubleKind.NO_LIBRARY, "libnvidia-ml.so.1: no such file"))))


def _get_into_trouble() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    _greet()
    sys.stdin.buffer.readline()
    text = "Unknown Error (999): the container lost its device"
    _say(encode(LinkAnswer(Trouble(TroubleKind.ACCESS_LOST, text, 999))))
    _leave_note("ended in peace")


def _note_its_end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of its input alone has to do
    _work()
    _leave_note("ended in peace")


def _name_a_gpu() -> None:
    _greet()
    sys.stdin.buffer.readline()
    gpu = GpuFacts(0, "GPU-0", "NVIDIA L4", "0000:1b:00.0", "580")
    _say(encode(LinkAnswer(gpus=(gpu,))))
    _serve()


def _leave_note(text: str) -> None:
    (Path(sys.argv[2]) / "note").write_text(text, encoding="ascii")


BEHAVIOURS: Mapping[str, Callable[[], None]] = {
    "work": _work,
    "hang": _hang,
    "never-start": _never_start,
    "start-slowly": _start_slowly,
    "say-garbage": _say_garbage,
    "cut-answer": _cut_answer,
    "crash": _crash,
    "end-with-words": _end_with_words,
    "complain-much": _complain_much,
    "answer-twice": _answer_twice,
    "never-end-a-line": _never_end_a_line,
    "have-trouble": _have_trouble,
    "get-into-trouble": _get_into_trouble,
    "name-a-gpu": _name_a_gpu,
    "note-its-end": _note_its_end,
}

if __name__ == "__main__":
    BEHAVIOURS[sys.argv[1]]()
