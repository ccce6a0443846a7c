"""The command `stallscope`: finds the subcommand, runs it, and turns errors into one line."""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol, cast

from stallscope.commands.messages import complain, tell
from stallscope.errors import StallscopeError

COMMANDS: Mapping[str, str] = {
    "up": "collect and serve the dashboard until stopped",
    "collect": "read every source into the lake until stopped, or once to the screen",
    "dashboard": "serve the pages",
    "calibrate": "measure what each GPU's host link achieves, one GPU after the other",
    "topology": "what hangs where: GPUs, NVMe, NICs, links, NUMA nodes, engines",
    "doctor": "what works here, what does not, why, and what to do",
    "sql": "one SELECT over the lake, to the screen or into a file",
    "lake": "what lies in the lake, whether it is sound, and its upkeep",
    "settings": "an example of a settings file, or what is in force",
}
_STDERR = 2
_COULD_NOT_RUN = 2
_INTERRUPTED = 130


class Command(Protocol):
    """A module of `stallscope.commands`."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; returns the exit status."""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        words: The words after ``stallscope``; those of this process when None.
    """
    _fill_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    try:
        return _run(sys.argv[1:] if words is None else list(words))
    except StallscopeError as error:
        complain(error)
    except KeyboardInterrupt:
        tell("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # disk full, too many processes
        tell(f"{error.filename or 'the system'}: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - people get a line, never a traceback
        tell(f"internal error, please report it: {_where(error)}")
    return _COULD_NOT_RUN


def _fill_closed_streams() -> None:
    """Open what was closed before the start, as by ``>&-``.

    The next file that is opened would get its number, and whatever a library prints would go into
    the lake.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= _STDERR:
        os.set_inheritable(number, True)  # noqa: FBT003 - positional-only
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    # None where the number was closed, whatever the type says
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _run(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help"}:
        (sys.stdout if words else sys.stderr).write(_overview())
        return 0 if words else _COULD_NOT_RUN
    if words[0] == "--version":
        sys.stdout.write(f"stallscope {_release()}\n")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean {near[0]}?" if near else "See: stallscope --help"
        raise StallscopeError(f"There is no command {name!r}", hint)
    # Only the part that is asked for: collect must not load Streamlit, nor settings a database.
    command = cast("Command", importlib.import_module(f"stallscope.commands.{name}"))
    parser = argparse.ArgumentParser(f"stallscope {name}", description=COMMANDS[name])
    command.configure(parser)
    return command.run(parser.parse_args(rest))


def _overview() -> str:
    lines = [f"  {name:10} {meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join(
        [
            "usage: stallscope COMMAND [--lake DIR] [--config FILE] ...",
            "",
            "Why an LLM inference host stalls, in seconds per cause.",
            "",
            *lines,
            "",
            "stallscope COMMAND --help tells more; stallscope --version prints the release.",
            "",
        ]
    )


def _release() -> str:
    try:
        return version("stallscope")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


def _where(error: Exception) -> str:
    """Return what happened and in which line, without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


if __name__ == "__main__":
    sys.exit(main())
