"""Which command lines are inference engines. Pure; a command line is looked at and never kept.

Only the program itself counts, not its arguments: ``grep vllm`` and ``docker run ... vllm serve``
are no engines. Keys and tokens stand in arguments, so nothing of them leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

_PYTHON = re.compile(r"python[\d.]*")
_TITLES: Mapping[str, str] = {
    "VLLM::": "vllm",  # VLLM_PROCESS_NAME_PREFIX: EngineCore, Worker_TP0, APIServer_0 ...
    "sglang::": "sglang",  # scheduler_TP0, detokenizer ...
}
_PROGRAMS: Mapping[str, str] = {
    "llama-server": "llamacpp",
    "text-generation-launcher": "tgi",
    "text-generation-router": "tgi",
    "text-generation-server": "tgi",
    "triton_python_backend_stub": "triton",
    "tritonserver": "triton",
    "trtllm-llmapi-launch": "trtllm",
    "trtllm-serve": "trtllm",
}
_SERVING: Mapping[str, frozenset[str]] = {
    # These commands are clients and benches too: only so they are an engine.
    "vllm": frozenset({"serve", "run-batch"}),
    "sglang": frozenset({"serve"}),
}
_MODULES: Mapping[str, str] = {
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.openai": "vllm",
    "vllm.entrypoints.grpc_server": "vllm",
    "sglang.launch_server": "sglang",
    "sglang.srt": "sglang",
    "text_generation_server": "tgi",
    "llama_cpp.server": "llamacpp",
    "tensorrt_llm.commands.serve": "trtllm",
}
_COMMAND_MODULES = {"vllm.entrypoints.cli.main": "vllm", "sglang.cli.main": "sglang"}
_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_SPAWNED = "--multiprocessing-fork"  # multiprocessing/spawn.py get_command_line


def split_command(text: str) -> list[str]:
    """Return the arguments of /proc/PID/cmdline; a title that was set is the first one."""
    return [argument for argument in text.split("\0") if argument.strip()]


def recognise_engine(arguments: Sequence[str]) -> str | None:
    """Return the engine kind of a command, in the words of table engine; None for all else.

    Args:
        arguments: The command as `split_command` returns it.
    """
    if not arguments:
        return None
    for title, kind in _TITLES.items():
        if arguments[0].startswith(title):
            return kind
    program, rest = _name_of(arguments[0]), arguments[1:]
    if _PYTHON.fullmatch(program):
        return _recognise_python(rest)
    return _recognise_program(program, rest)


def is_spawned_child(arguments: Sequence[str]) -> bool:
    """Return whether a command is a Python worker that its parent spawned.

    Such a worker has no name of its own until it sets a title; it belongs to its parent's engine.
    """
    return _SPAWNED in arguments[1:]


def _name_of(path: str) -> str:
    """Return a program's name: the first word, since titles hold blanks, without its folder."""
    return PurePosixPath(path.split(" ", 1)[0]).name


def _recognise_program(program: str, rest: Sequence[str]) -> str | None:
    """Return the engine kind of a program by its name."""
    if program in _SERVING:
        return program if rest and rest[0] in _SERVING[program] else None
    return _PROGRAMS.get(program)


def _recognise_python(arguments: Sequence[str]) -> str | None:
    """Return the engine kind of what a Python interpreter was asked to run."""
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in _OPTIONS_WITH_VALUE and rest:
            rest.pop(0)
        elif argument == "-m":
            return _recognise_module(rest)
        elif argument == "-c":
            return None
        elif not argument.startswith("-"):
            return _recognise_program(_name_of(argument), rest)
    return None


def _recognise_module(rest: Sequence[str]) -> str | None:
    """Return the engine kind of ``-m module``."""
    if not rest:
        return None
    module = rest[0]
    if module in _COMMAND_MODULES:
        return _recognise_program(_COMMAND_MODULES[module], rest[1:])
    for name, kind in _MODULES.items():
        if module == name or module.startswith(f"{name}."):
            return kind
    return None
