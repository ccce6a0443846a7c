from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stallscope.storage.writer import Writer, WriterOptions
from tests.storage.lake_rows import HandClock

QUIET = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)
"""No thread works by itself: the test decides what happens when."""


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def open_writer(tmp_path: Path, clock: HandClock) -> Iterator[Callable[..., Writer]]:
    opened: list[Writer] = []

    def open_one(options: WriterOptions = QUIET, name: str = "collect") -> Writer:
        writer = Writer.open(tmp_path / "lake", name, clock=clock, options=options)
        opened.append(writer)
        return writer

    yield open_one
    for writer in opened:
        writer.close()
