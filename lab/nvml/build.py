"""Compile the make-believe ``libnvidia-ml.so.1``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"  # the SONAME and the only name that the binding asks for
SOURCES = Path(__file__).resolve().parent / "c"

_FLAGS = (
    "-std=gnu11",
    "-O1",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    f"-Wl,-soname,{LIBRARY}",
    "-Wall",
    "-Wextra",
    "-Werror",
)


class BuildError(RuntimeError):
    """There is no library; the message says why and what to do."""


class NoCompilerError(BuildError):
    """This machine has no C compiler."""


def build_library(
    folder: Path, *, without: Sequence[str] = (), published_header: Path | None = None
) -> Path:
    """Compile the library into a folder and return its path.

    Args:
        folder: Where it goes; put it on ``LD_LIBRARY_PATH``. Made when missing.
        without: Functions that are not exported, as in a driver that is too old for them.
        published_header: Folder of NVIDIA's own ``nvml.h``, to hold our prototypes against.

    Raises:
        NoCompilerError: There is no C compiler.
        BuildError: It refuses.
    """
    compiler = _find_compiler()
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / LIBRARY
    header = () if published_header is None else _header_flags(published_header)
    hidden = _hide(folder, without)
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    command = [compiler, *_FLAGS, *header, *hidden, *sources, "-lm", "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return library


def _find_compiler() -> str:
    for name in filter(None, (os.environ.get("CC"), "gcc", "cc")):
        found = shutil.which(name)
        if found is not None:
            return found
    raise NoCompilerError("needs a C compiler: apt-get install gcc libc6-dev")


def _header_flags(folder: Path) -> tuple[str, ...]:
    # Without the last one the header would rename our versioned functions.
    return (f"-I{folder}", "-DSTALLSCOPE_WITH_NVML_H", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")


def _hide(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return linker flags that keep functions out of the table of exports."""
    if not names:
        return ()
    script = folder / "hidden.map"
    script.write_text(f"{{ local: {' '.join(f'{name};' for name in names)} }};\n", encoding="utf-8")
    return (f"-Wl,--version-script={script}",)
