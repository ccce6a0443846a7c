from __future__ import annotations

import array
import contextlib
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.edges.tap_socket import Datagram, TapSocket, TapSocketError
from collector.source import State

_MOST = 4_096


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a short name: a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="tap-") as name:
        yield Path(name)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "run" / "tap.sock"


@contextlib.contextmanager
def _open(path: Path, group: str | None = None) -> Iterator[TapSocket]:
    listening = TapSocket(path, group, _MOST)
    listening.bind()
    try:
        yield listening
    finally:
        listening.close()


@contextlib.contextmanager
def _sender(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(path))
        yield sender


def _refusal(path: Path) -> TapSocketError:
    with pytest.raises(TapSocketError) as refusal:
        TapSocket(path, None, _MOST).bind()
    return refusal.value


def test_what_is_sent_arrives_whole_and_with_the_senders_process(path: Path) -> None:
    with _open(path) as listening, _sender(path) as sender:
        sender.send(b"one")
        sender.send(b"x" * _MOST)
        sender.send(b"")
        assert listening.receive() == Datagram(b"one", os.getpid())
        assert listening.receive() == Datagram(b"x" * _MOST, os.getpid())
        assert listening.receive() == Datagram(b"", os.getpid())


def test_a_longer_datagram_arrives_empty(path: Path) -> None:
    with _open(path) as listening, _sender(path) as sender:
        sender.send(b"x" * (_MOST + 1))
        assert listening.receive() == Datagram(b"", os.getpid())


def test_descriptors_that_a_sender_attaches_are_not_taken(path: Path, folder: Path) -> None:
    with _open(path) as listening, _sender(path) as sender, (folder / "f").open("w") as file:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no Path of it is wanted
        rights = array.array("i", [file.fileno()] * 10)
        sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        assert listening.receive() == Datagram(b"x", os.getpid())
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above


def test_folder_and_socket_are_for_user_and_group_only(path: Path) -> None:
    with _open(path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert [entry.name for entry in path.parent.iterdir()] == ["tap.sock"]


def test_a_folder_that_is_there_keeps_its_rights(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o711)
    with _open(path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o711


def test_closing_takes_the_socket_away(path: Path) -> None:
    with _open(path):
        pass
    assert not path.exists()


def test_a_file_that_a_killed_process_left_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(path))
    with _open(path) as listening, _sender(path) as sender:
        sender.send(b"x")
        assert listening.receive() == Datagram(b"x", os.getpid())


def test_a_path_where_somebody_listens_is_left_to_them(path: Path) -> None:
    with _open(path) as listening:
        refusal = _refusal(path)
        assert (refusal.state, refusal.is_taken) == (State.RESTRICTED, True)
        assert refusal.reason == f"another process listens at {path}"
        with _sender(path) as sender:
            sender.send(b"still here")
        assert listening.receive() == Datagram(b"still here", os.getpid())


def test_a_stream_socket_there_is_somebodys_too(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        assert _refusal(path).is_taken


def test_what_is_no_socket_is_never_replaced(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious", encoding="utf-8")
    refusal = _refusal(path)
    assert (refusal.state, refusal.is_taken) == (State.FAILED, False)
    assert "exists and is no socket" in refusal.reason
    assert path.read_text(encoding="utf-8") == "precious"


def test_a_link_there_is_not_followed(path: Path, folder: Path) -> None:
    path.parent.mkdir()
    (folder / "other").write_bytes(b"precious")
    path.symlink_to(folder / "other")
    assert "exists and is no socket" in _refusal(path).reason
    assert (folder / "other").read_bytes() == b"precious"


def test_a_missing_folder_two_levels_up_is_named(folder: Path) -> None:
    refusal = _refusal(folder / "a/b/tap.sock")
    assert refusal.state is State.NOT_FOUND
    assert f"no folder {folder / 'a'}" in refusal.reason


def test_a_file_in_place_of_the_folder_is_named(folder: Path) -> None:
    (folder / "run").touch()
    assert _refusal(folder / "run/tap.sock").state is State.NOT_FOUND


def test_a_folder_that_may_not_be_written_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    refusal = _refusal(path)
    assert refusal.state is State.RESTRICTED
    assert f"no right to write in {path.parent}" in refusal.reason


def test_a_path_that_is_too_long_is_named(folder: Path) -> None:
    refusal = _refusal(folder / ("d" * 90) / "tap.sock")
    assert "at most 107 bytes" in refusal.reason


def test_checking_changes_nothing(path: Path) -> None:
    TapSocket(path, None, _MOST).check()
    assert not path.parent.exists()


def test_a_socket_whose_place_was_taken_away_notices(path: Path) -> None:
    with _open(path) as listening:
        assert listening.is_in_place()
        path.unlink()
        assert not listening.is_in_place()
        with _open(path):
            assert not listening.is_in_place()
            listening.close()
            assert path.exists()  # it is another's by now


def test_a_group_that_does_not_exist_is_noted_and_the_socket_works(path: Path) -> None:
    with _open(path, group="no-such-group") as listening:
        assert listening.note == "taps.group: no group no-such-group on this host"
        with _sender(path) as sender:
            sender.send(b"x")


def test_a_group_that_cannot_be_given_is_noted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with _open(path, group="daemon") as listening:
        assert "cannot be given to daemon: Operation not permitted" in listening.note


def test_shutting_wakes_the_thread_that_receives(path: Path) -> None:
    with _open(path) as listening:
        received: list[Datagram | None] = []
        thread = threading.Thread(target=lambda: received.append(listening.receive()))
        thread.start()
        listening.shut()
        thread.join(5)
        assert received == [None]
        assert listening.receive() is None
