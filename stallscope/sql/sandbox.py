"""What the operating system forbids the process that runs a person's query.

DuckDB's own locks come on top (`stallscope.sql.session`). They alone do not suffice: with
allowed_directories set and external access off, DuckDB 2.0 runs ``WITH a AS (COPY ... TO 'segment')
SELECT`` as a SELECT and overwrites the segment, and 1.5.5 writes log files from
``SELECT * FROM enable_logging(...)``.

Only the standard library is imported here: Landlock confines the calling thread and those it starts
later (landlock(7)), so it must come before libraries that start threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

# include/uapi/linux/landlock.h and the system call numbers, which are the same on x86-64 and arm64
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_OF_ABI_1 = (1 << 13) - 1
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # ABI 2 and 3
_TCP = 0b11  # bind and connect, ABI 4
_ABI_WITH_REFER, _ABI_WITH_TRUNCATE, _ABI_WITH_TCP = 2, 3, 4

_SET_PARENT_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38  # linux/prctl.h

_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/self",
    "/sys/fs/cgroup",  # DuckDB 2.0 does not start without its own cgroup file
)
_ROOM_MB = 2_048
"""Address space for code, threads and what allocators reserve without using it."""


def enter(lake: Path, scratch: Path, memory_mb: int) -> dict[str, str]:
    """Confine this process: read the lake, write the scratch folder, nothing else.

    Must be called while the process has one thread.

    Returns:
        What is enforced, as ``{"files": "landlock 7", "memory": "2048 MB"}``; a value that starts
        with ``no`` says why something is not.
    """
    die_with_parent(signal.SIGKILL)
    _give_way()
    return {"files": _confine_files(lake, scratch), "memory": _limit_memory(memory_mb)}


def landlock_version() -> int:
    """Return the version of Landlock this kernel enforces, 0 when none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)))


def die_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the thread that started it ends (Linux).

    See PR_SET_PDEATHSIG(2const); elsewhere nothing happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)


def _give_way() -> None:
    """Let the engine go first: in time on the CPU, and in who is killed when memory is out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold rows of the lake
    os.nice(5)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _limit_memory(memory_mb: int) -> str:
    """Cap address space: DuckDB's memory_limit does not count what one huge value takes.

    RLIMIT_DATA does not hold: jemalloc reserves with PROT_NONE and commits with MAP_FIXED, and
    mmap() counts a fixed mapping over an existing one as no growth (mm/vma.c, may_expand_vm).
    """
    wanted = 2 * memory_mb + _ROOM_MB
    try:
        resource.setrlimit(resource.RLIMIT_AS, (wanted << 20, wanted << 20))
    except (OSError, ValueError) as error:
        return f"no: {error}"
    return f"{wanted} MB"


def _confine_files(lake: Path, scratch: Path) -> str:
    version = landlock_version()
    if version < 1:
        return "no: this kernel has no Landlock"
    try:
        _restrict(version, readable=[lake, *_python_folders()], writable=[scratch])
    except OSError as error:
        return f"no: Landlock: {error.strerror}"
    return f"landlock {version}"


def _python_folders() -> Iterable[Path]:
    """Yield what a Python process reads to import its modules."""
    folders = {*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path}
    return (Path(folder) for folder in sorted(folders) if folder and Path(folder).exists())


def _restrict(version: int, *, readable: Iterable[Path], writable: Iterable[Path]) -> None:
    kernel = ctypes.CDLL(None, use_errno=True)
    handled = _ALL_OF_ABI_1
    handled |= _REFER if version >= _ABI_WITH_REFER else 0
    handled |= _TRUNCATE if version >= _ABI_WITH_TRUNCATE else 0
    fields = [handled, _TCP] if version >= _ABI_WITH_TCP else [handled]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    rules = _checked(kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path in readable:
        _allow(kernel, rules, path, _READ_FILE | _READ_DIR | _EXECUTE)
    for path in writable:
        _allow(kernel, rules, path, handled)
    _checked(kernel.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(kernel.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _allow(kernel: ctypes.CDLL, rules: int, path: Path, access: int) -> None:
    access = access if path.is_dir() else access & ~_READ_DIR  # the kernel refuses it on a file
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", access, place)
        _checked(kernel.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
