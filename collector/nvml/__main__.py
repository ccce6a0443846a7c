"""The child program: ``python -m collector.nvml`` answers lines on its input with lines.

Exit status: 0 when told to end, 1 when NVML does not serve, 2 when a line was not understood.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import BinaryIO

from collector.nvml.child import Child
from collector.nvml.listener import Listener
from collector.nvml.messages import Ask, Greeting, LinkAnswer, StateAnswer, encode

_TROUBLE = 1
_NOT_UNDERSTOOD = 2


def main(kernel_release: str) -> int:
    """Serve until told to end, and return the exit status.

    Args:
        kernel_release: As ``uname -r`` tells.
    """
    answers = _take_stdout()
    listener = Listener(sys.stdin.buffer)
    child = Child(kernel_release)
    status = 0
    with suppress(BrokenPipeError):  # the parent is gone, and with it whoever could be told
        status = _serve(child, listener, answers)
    child.end()
    return status


def _take_stdout() -> BinaryIO:
    """Return stdout for our answers alone; what a library prints goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _serve(child: Child, listener: Listener, answers: BinaryIO) -> int:
    message: Greeting | LinkAnswer | StateAnswer = child.greet()
    while True:
        answers.write(encode(message))
        answers.flush()
        if message.trouble is not None:
            return _TROUBLE
        line = listener.next_line()
        if line in {"", Ask.STOP}:
            return 0
        if line == Ask.LINK:
            message = child.read_links()
        elif line == Ask.STATE:
            message = child.read_states()
        else:
            sys.stderr.write(f"not understood: {line[:80]!r}\n")
            return _NOT_UNDERSTOOD


if __name__ == "__main__":
    # Without the interpreter's own ending: threads may still be inside the driver.
    os._exit(main(os.uname().release))
