"""The Unix datagram socket at which the engine's taps deliver.

It is made under a temporary name and renamed into place, so that nobody finds it before its rights
are set, and a file that was left behind is replaced at once. SO_RCVBUF is left alone, since it has
no effect on Unix sockets (unix(7)): the queue holds net.unix.max_dgram_qlen datagrams, ten by
default, so whoever receives must be prompt.
"""

from __future__ import annotations

import errno
import grp
import os
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from collector.source import State

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7))
_FOLDER_MODE = 0o750
_SOCKET_MODE = 0o660
_LONGEST_PATH = 107  # sun_path has 108 bytes with the final zero (unix(7))


class TapSocketError(Exception):
    """Nothing can be received.

    Args:
        state: Why, in the words of source_health.
        reason: Why, for people.
        is_taken: Another process listens there.
    """

    def __init__(self, state: State, reason: str, *, is_taken: bool = False) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.is_taken = is_taken


@dataclass(frozen=True, slots=True)
class Datagram:
    """What one send brought.

    Attributes:
        data: Its bytes; empty when it was longer than the room for it.
        pid: The sender as the kernel says; 0 when it cannot be seen from here.
    """

    data: bytes
    pid: int


class TapSocket:
    """Listens at a path.

    Args:
        path: Where.
        group: Name of the group that may send; None leaves it at our own.
        most_bytes: Longest datagram.
    """

    def __init__(self, path: Path, group: str | None, most_bytes: int) -> None:
        self.path = path
        self.note = ""
        """What could not be done as wished, though the socket works; empty when all could."""
        self._temporary = path.with_name(f".{os.getpid()}.sock")
        self._group = group
        self._buffer = bytearray(most_bytes)
        self._socket: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._is_shut = False

    def bind(self) -> None:
        """Listen.

        Raises:
            TapSocketError: Another process listens there, or the path cannot be used.
        """
        self.check()
        try:
            self._make_folder()
        except OSError as error:
            raise _explain(self.path, error) from error
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._put_in_place(made)
        except OSError as error:
            made.close()
            raise _explain(self.path, error) from error
        self._socket = made
        self._is_shut = False

    def check(self) -> None:
        """Find out whether one could listen here, changing nothing.

        Raises:
            TapSocketError: Another process listens there, or the path cannot be used.
        """
        if max(len(os.fsencode(path)) for path in (self.path, self._temporary)) > _LONGEST_PATH:
            reason = f"{self.path}: a socket's path has at most {_LONGEST_PATH} bytes"
            raise TapSocketError(State.RESTRICTED, reason)
        try:
            self._check_folder()
            if self.is_taken():
                reason = f"another process listens at {self.path}"
                raise TapSocketError(State.RESTRICTED, reason, is_taken=True)
        except OSError as error:
            raise _explain(self.path, error) from error

    def is_taken(self) -> bool:
        """Return whether a process listens at the path.

        Raises:
            OSError: It cannot be told, or what lies there is no socket.
        """
        try:
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                raise FileExistsError(errno.EEXIST, "it exists and is no socket")
        except FileNotFoundError:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(str(self.path))
            except (ConnectionRefusedError, FileNotFoundError):
                return False  # left behind by a process that was killed
            except OSError as error:
                if error.errno == errno.EPROTOTYPE:  # a stream socket: somebody's, not a tap's
                    return True
                raise
        return True

    def receive(self) -> Datagram | None:
        """Wait for a datagram; None once the socket is shut.

        Raises:
            OSError: The kernel refused for another reason.
        """
        listening = self._socket
        if listening is None or self._is_shut:
            return None
        # Room for the sender's credentials only: descriptors that a sender attaches find none.
        size, notes, flags, _ = listening.recvmsg_into(
            [self._buffer], socket.CMSG_SPACE(_CREDENTIALS.size)
        )
        if size == 0 and self._is_over():
            return None
        pid = next((_pid_of(data) for _, kind, data in notes if kind == socket.SCM_CREDENTIALS), 0)
        return Datagram(b"" if flags & socket.MSG_TRUNC else bytes(self._buffer[:size]), pid)

    def is_in_place(self) -> bool:
        """Return whether the path still leads to this socket: others may have cleaned up there."""
        try:
            return self._identity == _identity_of(self.path)
        except OSError:
            return False

    def shut(self) -> None:
        """Stop listening; a receive under way, and every later one, returns None."""
        if self._socket is None or self._is_shut:
            return
        self._is_shut = True
        if self.is_in_place():
            self.path.unlink(missing_ok=True)
        self._socket.shutdown(socket.SHUT_RD)  # wakes the thread that receives; close would not

    def close(self) -> None:
        """Give the descriptor back; nobody may be receiving any more."""
        self.shut()
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()

    def _is_over(self) -> bool:
        """Return whether the socket was shut meanwhile, as an empty datagram may mean."""
        return self._is_shut

    def _check_folder(self) -> None:
        folder = self.path.parent
        folder = folder if folder.exists() else folder.parent  # it would be made
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"no right to write in {folder}")

    def _make_folder(self) -> None:
        folder = self.path.parent
        if not folder.is_dir():
            folder.mkdir(mode=_FOLDER_MODE)
            self._give_to_group(folder)

    def _put_in_place(self, made: socket.socket) -> None:
        temporary = self._temporary
        temporary.unlink(missing_ok=True)
        try:
            made.bind(str(temporary))
            temporary.chmod(_SOCKET_MODE)
            self._give_to_group(temporary)
            self._identity = _identity_of(temporary)
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def _give_to_group(self, path: Path) -> None:
        """Let the group's members send; what cannot be done is noted, our own user still may."""
        if self._group is None:
            return
        try:
            os.chown(path, -1, grp.getgrnam(self._group).gr_gid)
        except KeyError:
            self.note = f"taps.group: no group {self._group} on this host"
        except OSError as error:
            self.note = f"taps.group: {path} cannot be given to {self._group}: {error.strerror}"


def _pid_of(credentials: bytes) -> int:
    pid: int = _CREDENTIALS.unpack_from(credentials)[0]
    return pid


def _identity_of(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _explain(path: Path, error: OSError) -> TapSocketError:
    denied = error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
    missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
    state = State.RESTRICTED if denied else State.NOT_FOUND if missing else State.FAILED
    return TapSocketError(state, f"{path}: {error.strerror or error}")
