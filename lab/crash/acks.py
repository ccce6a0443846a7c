"""What a writing process knows to be acknowledged, kept where a kill -9 of it cannot reach.

One record of fixed size per acknowledgement, each one write() to a file opened for appending: the
kernel has it whole or not at all when the process dies.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

_RECORD = struct.Struct("<qqqqq")


@dataclass(frozen=True, slots=True)
class Ack:
    """State of a run at its last acknowledgement.

    Attributes:
        run: The run.
        tokens: Token rows 0 to ``tokens - 1`` are acknowledged.
        polls: Gauge polls 0 to ``polls - 1`` are.
        first_id: First id of the block that the run reserved.
        dropped: Rows that the writer said it dropped; 0 in a sound trial.
    """

    run: int
    tokens: int
    polls: int
    first_id: int
    dropped: int = 0


class AckFile:
    """Appends acknowledgements."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def write(self, ack: Ack) -> None:
        """Write one acknowledgement.

        Raises:
            OSError: It could not be written: the trial is void.
        """
        record = _RECORD.pack(ack.run, ack.tokens, ack.polls, ack.first_id, ack.dropped)
        if os.write(self._file, record) != len(record):
            msg = "an acknowledgement was cut short"
            raise OSError(msg)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def last_acks(path: Path) -> list[Ack]:
    """Return the last acknowledgement of each run, in order; none for a missing file."""
    if not path.exists():
        return []
    last = {fields[0]: Ack(*fields) for fields in _RECORD.iter_unpack(path.read_bytes())}
    return [last[run] for run in sorted(last)]
