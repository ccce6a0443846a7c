from __future__ import annotations

import logging
import re

import pytest

from collector.log_lines import StateLog, start_logging
from tests.collector.stand_ins import SECOND


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "stallscope.collect")
    return caplog


def test_a_state_is_told_once(lines: pytest.LogCaptureFixture) -> None:
    log = StateLog()
    for second in range(100):
        log.note("block_device", "working", "", second * SECOND)
    assert lines.messages == ["block_device: working"]


def test_a_change_is_told_with_what_was_before(lines: pytest.LogCaptureFixture) -> None:
    log = StateLog()
    log.note("engine_metrics", "working", "", 0)
    log.note("engine_metrics", "gone", "127.0.0.1:8000 refused", 11 * SECOND)
    assert lines.messages[1] == "engine_metrics: gone, was working - 127.0.0.1:8000 refused"
    assert [record.levelno for record in lines.records] == [logging.INFO, logging.WARNING]


def test_flapping_is_one_line_in_ten_seconds(lines: pytest.LogCaptureFixture) -> None:
    log = StateLog()
    for second in range(100):
        state = "failed" if second % 2 else "working"
        log.note("engine_metrics", state, "", second * SECOND)
    assert 2 <= len(lines.messages) <= 10


def test_a_change_within_the_quiet_time_is_told_after_it(lines: pytest.LogCaptureFixture) -> None:
    log = StateLog()
    log.note("a", "working", "", 0)
    log.note("a", "failed", "x", 3 * SECOND)
    assert len(lines.messages) == 1
    log.note("a", "failed", "x", 10 * SECOND)
    assert lines.messages[1:] == ["a: failed, was working - x"]


def test_a_reason_with_a_number_in_it_is_told_once_a_minute(
    lines: pytest.LogCaptureFixture,
) -> None:
    log = StateLog()
    for second in range(120):
        log.note("a", "hung", f"a poll has run for {second} s", second * SECOND)
    assert len(lines.messages) == 2


def test_sources_do_not_silence_each_other(lines: pytest.LogCaptureFixture) -> None:
    log = StateLog()
    log.note("a", "working", "", 0)
    log.note("b", "working", "", 0)
    assert lines.messages == ["a: working", "b: working"]


def test_lines_carry_utc_time_and_level(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    start_logging()
    start_logging()
    logging.getLogger("stallscope.collect").warning("port %d is taken", 9871)
    line = r"\d\d:\d\d:\d\d UTC WARNING port 9871 is taken\n"
    assert re.fullmatch(line, capsys.readouterr().err)


def test_what_an_engine_prints_neither_starts_a_line_nor_steers_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    start_logging()
    logging.getLogger("stallscope.collect").warning(
        "found %s", "modèle\n00:00:00 UTC INFO all is well\x1b[2J\u202e"
    )
    line = capsys.readouterr().err
    assert line.endswith("WARNING found modèle\\n00:00:00 UTC INFO all is well\\x1b[2J\\u202e\n")
