from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from collector.edges.procfs import (
    PolledFile,
    explain,
    list_processes,
    read_beginning,
    read_text,
    state_of,
)
from collector.edges.sysfs import exists, list_names, read_attribute, read_integer, resolve
from collector.source import State


def test_a_polled_file_is_read_from_its_start_each_time(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    file = PolledFile(path)
    for text in ("one\n", "twelve\n", "2\n"):
        path.write_text(text, encoding="utf-8")
        assert file.read() == text
    file.close()


def test_a_file_longer_than_one_read_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "diskstats"
    path.write_bytes(b"0123456789abcdef" * 10_000)
    assert read_text(path) == "0123456789abcdef" * 10_000


def test_a_file_longer_than_its_limit_is_refused_rather_than_cut(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("12345", encoding="utf-8")
    assert read_text(path, 5) == "12345"
    with pytest.raises(OSError, match="longer than 4 bytes") as caught:
        read_text(path, 4)
    assert caught.value.errno == errno.EFBIG


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "comm"
    path.write_bytes(b"caf\xe9\n")
    assert read_text(path) == read_beginning(path, 100) == "caf\ufffd\n"
    assert read_beginning(path, 2) == "ca"


def test_a_file_that_failed_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "late"
    file = PolledFile(path)
    with pytest.raises(FileNotFoundError):
        file.read()
    path.write_text("here", encoding="utf-8")
    assert file.read() == "here"
    file.close()


def test_processes_are_the_numbers_in_proc(tmp_path: Path) -> None:
    for name in ("12", "3", "self", "\u0663", "1x"):
        (tmp_path / name).mkdir()
    assert list_processes(tmp_path) == [3, 12]


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (errno.EACCES, State.RESTRICTED),
        (errno.EPERM, State.RESTRICTED),
        (errno.ENOENT, State.UNSUPPORTED),
        (errno.EOPNOTSUPP, State.UNSUPPORTED),
        (errno.ESRCH, State.GONE),
        (errno.ENODEV, State.GONE),
        (errno.EIO, State.FAILED),
    ],
)
def test_a_failed_read_says_what_became_of_its_source(number: int, state: State) -> None:
    assert state_of(OSError(number, os.strerror(number))) == state


def test_a_failure_without_words_has_a_name() -> None:
    assert explain(OSError(errno.EIO, "Input/output error")) == "input/output error"
    assert explain(OSError()) == "oserror"
    assert state_of(OSError()) == State.FAILED


def test_attributes_are_values_or_none(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("Example   \n", encoding="utf-8")
    (tmp_path / "node").write_text("-1\n", encoding="utf-8")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    assert read_attribute(tmp_path / "model") == "Example"
    assert read_attribute(tmp_path / "empty") is None
    assert read_attribute(tmp_path / "absent") is None
    assert read_attribute(tmp_path) is None
    assert read_integer(tmp_path / "node") == -1
    assert read_integer(tmp_path / "model") is None
    assert read_integer(tmp_path / "absent") is None


def test_names_that_no_file_can_have_are_absent(tmp_path: Path) -> None:
    assert exists(tmp_path / ("long" * 100)) is False
    odd = tmp_path / "a\0b"
    assert read_attribute(odd) is None
    assert list_names(odd) == ()
    assert resolve(odd) is None
    assert exists(odd) is False


def test_links_are_followed_to_their_end_and_loops_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "link").symlink_to("place")
    (tmp_path / "loop").symlink_to("loop")
    assert resolve(tmp_path / "link") == tmp_path / "place"
    assert resolve(tmp_path / "loop") is None
    assert resolve(tmp_path / "absent") is None
    assert list_names(tmp_path) == ("link", "loop", "place")
