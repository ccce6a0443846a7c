"""What the child knows and answers: all GPUs together, and whether NVML as a whole still serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from collector.edges.nvml import Library
from collector.edges.nvml_errors import Code, NvmlError, ends_gpu, ends_library, trouble_for
from collector.nvml.blank_samples import blank_links, blank_states
from collector.nvml.crew import Crew
from collector.nvml.facts import Host
from collector.nvml.gpu import Blank, Gpu, Report, Sample
from collector.nvml.messages import (
    GpuFacts,
    GpuState,
    Greeting,
    LinkAnswer,
    StateAnswer,
    Trouble,
)

_OPEN_PATIENCE_S = 2.0
_PATIENCE_S = 0.4
_REOPEN_PATIENCE_S = 1.0
_END_PATIENCE_S = 0.3
_HUNG = "the driver does not answer for this GPU"


class Child:
    """Answers for all GPUs of the machine.

    Args:
        kernel_release: As ``uname -r`` tells.
    """

    def __init__(self, kernel_release: str) -> None:
        self._library = Library()
        self._kernel_release = kernel_release
        self._gpus: tuple[Gpu, ...] = ()
        self._crew = Crew(())
        self._told: tuple[tuple[GpuFacts, ...], ...] = ()

    def greet(self) -> Greeting:
        """Load NVML, open all GPUs and return what there is."""
        trouble = self._library.start()
        if trouble is not None:
            return Greeting(trouble)
        host = Host(self._library.driver_version(), self._kernel_release)
        library_version = self._library.library_version()
        try:
            count = self._library.count()
        except NvmlError as error:
            return Greeting(trouble_for(error), host.driver, library_version)
        self._gpus = tuple(Gpu(self._library, index, host) for index in range(count))
        self._crew = Crew(self._gpus)
        reports = self._crew.ask(Gpu.open, _OPEN_PATIENCE_S)
        self._told = tuple(
            gpu.facts if report is not None else _hang(gpu.facts)
            for gpu, report in zip(self._gpus, reports, strict=True)
        )
        facts = _flatten(self._told)
        return Greeting(_find_trouble(reports), host.driver, library_version, count, facts)

    def read_links(self) -> LinkAnswer:
        """Return what the links carried since the time before."""
        return LinkAnswer(*self._read(Gpu.link, blank_links))

    def read_states(self) -> StateAnswer:
        """Return the states of all GPUs."""
        return StateAnswer(*self._read(Gpu.state, blank_states))

    def end(self) -> None:
        """Let go of the driver: an idle holder keeps others from resetting a GPU.

        While a GPU hangs inside the driver this is left to the end of the process: another call
        could hang, too.
        """
        if all(self._crew.ask(_close, _END_PATIENCE_S)):
            self._library.shutdown()

    def _read(
        self, question: Callable[[Gpu], Report[Sample]], blank: Blank[Sample]
    ) -> tuple[Trouble | None, tuple[Sample, ...], tuple[GpuFacts, ...]]:
        reports = self._crew.ask(question, _PATIENCE_S)
        if _is_uninitialised(reports):  # somebody shut the library down: once more from the start
            trouble = self._library.initialise()
            if trouble is not None:
                return trouble, (), ()
            reports = self._crew.ask(question, _REOPEN_PATIENCE_S)
        samples = tuple(
            sample
            for gpu, report in zip(self._gpus, reports, strict=True)
            for sample in (report.samples if report else blank(gpu.facts, GpuState.HUNG, _HUNG))
        )
        return _find_trouble(reports), samples, self._find_news(reports)

    def _find_news(self, reports: Sequence[Report[Sample] | None]) -> tuple[GpuFacts, ...]:
        """Return what GPUs are, if that is no longer what was told; else nothing.

        What a GPU that does not answer is was half found out, maybe: it is told once it answers.
        """
        before, self._told = (
            self._told,
            tuple(
                told if report is None else gpu.facts
                for gpu, report, told in zip(self._gpus, reports, self._told, strict=True)
            ),
        )
        return () if self._told == before else _flatten(self._told)


def _close(gpu: Gpu) -> bool:
    gpu.close()
    return True


def _is_uninitialised(reports: Sequence[Report[Sample] | None]) -> bool:
    return any(
        report is not None and report.error is not None and report.error.code == Code.UNINITIALIZED
        for report in reports
    )


def _find_trouble(reports: Sequence[Report[Sample] | None]) -> Trouble | None:
    """Return why NVML as a whole does not serve, if that is what the GPUs say.

    A GPU that hangs or is lost says nothing about the others.
    """
    errors = [report.error for report in reports if report is not None and not _is_lost(report)]
    for error in errors:
        if error is not None and ends_library(error.code):
            return trouble_for(error)
    first = errors[0] if errors else None
    if first is not None and all(error and error.code == Code.UNKNOWN for error in errors):
        return trouble_for(first)
    return None


def _is_lost(report: Report[Sample]) -> bool:
    return report.error is not None and ends_gpu(report.error.code)


def _flatten(groups: Sequence[Sequence[GpuFacts]]) -> tuple[GpuFacts, ...]:
    return tuple(each for group in groups for each in group)


def _hang(facts: Sequence[GpuFacts]) -> tuple[GpuFacts, ...]:
    return tuple(replace(each, link_state=GpuState.HUNG, link_reason=_HUNG) for each in facts)
