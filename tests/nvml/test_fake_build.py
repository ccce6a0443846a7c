"""The stand-in library as the linker, the loader and NVIDIA's own header see it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from ctypes import Structure, sizeof
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from lab.nvml import build
from lab.nvml.build import BuildError, NoCompilerError, build_library
from lab.nvml.control import DriverControl, GpuControl, Leg, TrafficControl
from lab.nvml.driver import CONTROL_VARIABLE, FakeDriver

Start = Callable[[FakeDriver, str], CompletedProcess[str]]

MIRROR: dict[str, type[Structure]] = {
    "fake_leg": Leg,
    "fake_traffic": TrafficControl,
    "fake_gpu": GpuControl,
    "fake_driver": DriverControl,
}
ASK_FOR_PLACES = """
import ctypes, json
library = ctypes.CDLL("libnvidia-ml.so.1")
library.stallscope_fake_offset.restype = ctypes.c_size_t
library.stallscope_fake_sizeof.restype = ctypes.c_size_t
size = ctypes.c_size_t()
places = {
    f"{structure}.{field}": [
        library.stallscope_fake_offset(structure.encode(), field.encode(), ctypes.byref(size)),
        size.value,
    ]
    for structure, fields in NAMES.items()
    for field in fields
}
sizes = {name: library.stallscope_fake_sizeof(name.encode()) for name in NAMES}
print(json.dumps([places, sizes, library.stallscope_fake_places()]))
"""


def _field_names(structure: type[Structure]) -> list[str]:
    return [entry[0] for entry in structure._fields_]


def _published_header() -> Path:
    try:
        shipped = files("nvidia-nvml-dev") or []
    except PackageNotFoundError:
        pytest.skip("needs NVIDIA's nvml.h: pip install nvidia-nvml-dev")
    (header,) = (path for path in shipped if path.name == "nvml.h")
    return Path(str(header.locate())).parent


def test_the_mirror_lies_where_the_library_says(driver: FakeDriver, start: Start) -> None:
    names = {name: _field_names(structure) for name, structure in MIRROR.items()}
    done = start(driver, f"NAMES = {names!r}\n{ASK_FOR_PLACES}")
    assert done.returncode == 0, done.stderr
    places, sizes, count = json.loads(done.stdout)
    assert places == {
        f"{name}.{field}": [getattr(structure, field).offset, getattr(structure, field).size]
        for name, structure in MIRROR.items()
        for field in names[name]
    }
    assert sizes == {name: sizeof(structure) for name, structure in MIRROR.items()}
    assert count == len(places), "the library has a field that the mirror lacks"


def test_prototypes_and_layouts_match_nvidias_own_header(fake_nvml: Path, tmp_path: Path) -> None:
    assert fake_nvml.is_dir()  # or there is no compiler
    assert build_library(tmp_path, published_header=_published_header()).is_file()


def test_a_function_that_is_left_out_is_not_found(
    fake_nvml: Path, tmp_path: Path, start: Start
) -> None:
    assert fake_nvml.is_dir()
    build_library(tmp_path, without=("nvmlGpmSampleGet", "nvmlDeviceGetPcieThroughput"))
    program = """
import pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
sample = n.nvmlGpmSampleAlloc()
for function, *rest in ((n.nvmlGpmSampleGet, sample), (n.nvmlDeviceGetPcieThroughput, 0)):
    try:
        function(gpu, *rest)
    except n.NVMLError_FunctionNotFound:
        print("absent")
"""
    with FakeDriver(tmp_path, tmp_path / "control") as driver:
        assert start(driver, program).stdout.split() == ["absent", "absent"]


def test_loaded_by_path_it_is_the_library_that_the_binding_finds(
    driver: FakeDriver, fake_nvml: Path
) -> None:
    """That is what the SONAME is for: no LD_LIBRARY_PATH is needed then."""
    environment = {CONTROL_VARIABLE: driver.environment[CONTROL_VARIABLE]}
    program = f"""
import ctypes
ctypes.CDLL({str(fake_nvml / build.LIBRARY)!r})
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetCount())
"""
    done = run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert done.stdout == b"2\n"


def test_without_a_compiler_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompilerError, match="apt-get install gcc libc6-dev"):
        build_library(tmp_path / "library")


def test_what_the_compiler_says_is_in_the_error(
    fake_nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fake_nvml.is_dir()
    (tmp_path / "broken.c").write_text("int main(void) { return nowhere; }\n", encoding="utf-8")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    with pytest.raises(BuildError, match="nowhere"):
        build_library(tmp_path / "library")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot be opened"), (b"not it", "no control file of this build")],
)
def test_a_wrong_control_file_is_said_and_there_is_no_driver(
    driver: FakeDriver, start: Start, content: bytes | None, reason: str
) -> None:
    path = Path(driver.environment[CONTROL_VARIABLE])
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    done = start(driver, "import pynvml; pynvml.nvmlInit()")
    assert "NVMLError_DriverNotLoaded" in done.stderr
    assert reason in done.stderr
