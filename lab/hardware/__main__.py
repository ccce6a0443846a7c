"""``python -m lab.hardware``: asks an NVIDIA GPU what only hardware can settle; writes one page.

It copies at full speed for about two minutes, so the GPU should be idle. Exit status 0 when there
is a page, 2 when there is no GPU or it is at work.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from collector.calibration.busy import find_work
from collector.calibration.copy_tool import find_library
from collector.calibration.rates import MeasureError
from collector.edges.nvml import Library, Meter
from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import NvmlError
from collector.edges.nvml_process import NoAnswerError, NvmlProcess, Patience
from collector.nvml.messages import GpuFacts, Trouble, TroubleKind
from lab.hardware import (
    call_costs,
    field_counters,
    header_share,
    polling_effect,
    privileges,
    serialisation,
    throughput_unit,
)
from lab.hardware.answer import Answer, Examine, ask
from lab.hardware.load import Load, LoadError
from lab.hardware.page import Machine, file_name, render
from lab.hardware.subject import Subject
from lab.nvml.driver import CONTROL_VARIABLE
from lab.report import say

PAGES = Path(__file__).resolve().parents[2] / "docs/hardware"
QUESTIONS: Mapping[str, Examine] = {
    module.QUESTION: module.examine
    for module in (
        field_counters,
        throughput_unit,
        header_share,
        privileges,
        call_costs,
        serialisation,
        polling_effect,
    )
}
_COULD_NOT_RUN = 2
_IDLE_CHECK_S = 1.0
_START_S = 30.0
"""Where no persistence daemon keeps the driver loaded, NVML's start takes seconds."""


def main(words: Sequence[str]) -> int:
    """Examine a GPU and write the page; see the module for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lab.hardware", description=__doc__)
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU (default: 0)")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch or CuPy")
    parser.add_argument("--quick", action="store_true", help="short: to see whether it runs")
    parser.add_argument("--force", action="store_true", help="even while the GPU is at work")
    given = parser.parse_args(words)
    library = Library()
    trouble = library.start()
    if trouble is not None:
        say(f"no GPU to examine: {trouble.text}")
        return _COULD_NOT_RUN
    try:
        return _examine(given, library)
    except (NvmlError, NoAnswerError) as error:
        say(f"GPU {given.gpu} cannot be examined: {error}")
        return _COULD_NOT_RUN
    finally:
        library.shutdown()


def _examine(given: argparse.Namespace, library: Library) -> int:
    handles = [library.handle(index) for index in range(library.count())]
    if not 0 <= given.gpu < len(handles):
        say(f"there is no GPU {given.gpu}: {len(handles)} were found")
        return _COULD_NOT_RUN
    device, *others = (
        Device(library.gate, handle, Meter())
        for handle in [handles[given.gpu], *handles[: given.gpu], *handles[given.gpu + 1 :]]
    )
    with ExitStack() as stack:
        child = NvmlProcess(patience=Patience(greeting=_START_S))
        stack.callback(child.close)
        facts = _find_facts(child, given.gpu)
        work = "" if given.force else _find_work(facts, child)
        if work:
            say(f"GPU {given.gpu} is at work: {work}; --force examines it all the same")
            return _COULD_NOT_RUN
        load, no_load = _start_load(stack, given.python, facts.uuid)
        seconds, blocks = (1.0, 2) if given.quick else (4.0, 6)
        subject = Subject(
            *(facts, device, [device, *others], load, no_load, child.ask_link, seconds, blocks)
        )
        answers = _ask_all(subject)
    _deliver(_describe(subject, library), answers)
    return 0


def _find_facts(child: NvmlProcess, index: int) -> GpuFacts:
    """Return what a GPU is, as the collector's child tells it.

    Raises:
        NoAnswerError: NVML does not serve, or does not for this GPU.
    """
    for gpu in child.greet().gpus:
        if gpu.index == index and gpu.uuid and not gpu.parent:
            return gpu
    raise NoAnswerError(Trouble(TroubleKind.FAILED, "it does not tell its name"))


def _find_work(facts: GpuFacts, child: NvmlProcess) -> str:
    child.ask_link()
    time.sleep(_IDLE_CHECK_S)
    return find_work([facts], child.ask_state(), child.ask_link(), Path("/proc")).get(
        facts.uuid, ""
    )


def _start_load(stack: ExitStack, python: str, uuid: str) -> tuple[Load | None, str]:
    """Return the load, or why there is none."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    try:
        if find_library(python, environment) is None:
            return None, f"{python} has neither PyTorch nor CuPy: name one that has by --python"
        return stack.enter_context(Load(python, environment)), ""
    except (MeasureError, LoadError) as error:
        return None, str(error)


def _ask_all(subject: Subject) -> list[Answer]:
    answers = []
    for question, examine in QUESTIONS.items():
        say(f"{question} ...")
        answers.append(ask(question, examine, subject))
        say(f"  {answers[-1].verdict or 'not answered: ' + answers[-1].why_not}")
    return answers


def _describe(subject: Subject, library: Library) -> Machine:
    facts = subject.facts
    return Machine(
        model=facts.model,
        driver=facts.driver,
        library=library.library_version(),
        link=f"gen {facts.max_generation or '?'} x{facts.max_width or '?'} at most",
        gpus=len(subject.all_devices),
        copies=subject.load.library if subject.load else f"nothing: {subject.no_load}",
        day=dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d"),
        is_stand_in=CONTROL_VARIABLE in os.environ,
    )


def _deliver(machine: Machine, answers: Sequence[Answer]) -> None:
    """Write the page among the others; one of the stand-in driver goes to the screen only."""
    page = render(machine, answers)
    if machine.is_stand_in:
        sys.stdout.write(page)
        return
    folder = PAGES if PAGES.is_dir() else Path.cwd()  # an installed package has no docs beside it
    path = folder / file_name(machine.model, machine.driver)
    path.write_text(page, encoding="utf-8")
    say(f"wrote {path}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
