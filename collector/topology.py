"""Source topology: what hangs where, and what of it costs time.

Buses, NUMA nodes and the placement of engines hardly ever change, so rows are written only when
they did: a whole look at a time, whose rows share their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from collector.nvml.messages import GpuFacts
from collector.source import Machine, NoData, Reading, Row, State
from collector.topology_findings import find_findings
from collector.topology_look import Knowledge, combine_knowledge, read_look
from collector.topology_rows import describe_findings, describe_look
from stallscope.units import US_PER_SECOND

_LOOK_US = 60 * US_PER_SECOND
_ASK_US = 10 * US_PER_SECOND

_PASSING = ("link_generation",)
"""Columns that alone are no change: an idle link steps down and up again."""


def no_processes() -> Sequence[tuple[int, str]]:
    """Return no engine process."""
    return ()


def no_gpus() -> Iterable[GpuFacts]:
    """Return no GPU: the driver is not asked."""
    return ()


def no_gpu_processes() -> Mapping[str, Sequence[int]]:
    """Return no process of any GPU."""
    return {}


class Topology:
    """What hangs where.

    The machine is looked at every minute, and sooner when an engine or a GPU came or went.

    Args:
        machine: What may be touched.
        engine_processes: Returns ids of engine processes and the names of their main threads. This
            and the two below are asked at every poll, from its thread, so they must be quick.
        gpus: Returns what the driver says of GPUs and MIG instances.
        gpu_processes: Returns the processes that use a GPU or MIG instance, by its UUID.
    """

    name = "topology"
    tables = ("topology", "topology_finding")
    interval_us = _ASK_US
    deadline_us = 10 * US_PER_SECOND

    def __init__(
        self,
        machine: Machine,
        *,
        engine_processes: Callable[[], Sequence[tuple[int, str]]] = no_processes,
        gpus: Callable[[], Iterable[GpuFacts]] = no_gpus,
        gpu_processes: Callable[[], Mapping[str, Sequence[int]]] = no_gpu_processes,
    ) -> None:
        self._machine = machine
        self._engine_processes = engine_processes
        self._gpus = gpus
        self._gpu_processes = gpu_processes
        self._knowledge: Knowledge | None = None
        self._looked_us = 0
        self._written: tuple[Sequence[Row], Sequence[Row]] | None = None
        self._outcome: NoData | str = ""

    def read(self) -> Reading | NoData:
        """Return all rows of a look when something has changed, else none.

        Returns:
            NoData where neither buses nor NUMA nodes are to be seen.
        """
        knowledge = combine_knowledge(self._engine_processes(), self._gpus(), self._gpu_processes())
        now_us = self._machine.clock.now().mono_us
        rows: Mapping[str, list[Row]] = {}
        if knowledge != self._knowledge or now_us - self._looked_us >= _LOOK_US:
            self._knowledge, self._looked_us = knowledge, now_us
            rows = self._look(knowledge)
        if isinstance(self._outcome, NoData):
            return self._outcome
        return Reading(rows, reason=self._outcome)

    def close(self) -> None:
        """Do nothing: nothing is open between polls."""

    def _look(self, knowledge: Knowledge) -> Mapping[str, list[Row]]:
        """Return the rows to write; none when they say what the last ones said."""
        look = read_look(self._machine.proc, self._machine.sys, knowledge)
        if not look.tree.devices and not look.numa_nodes:
            self._outcome = NoData(State.NOT_FOUND, look.missing())
            return {}
        self._outcome = look.missing()
        nodes, findings = describe_look(look), describe_findings(find_findings(look))
        lasting = [_without_passing(row) for row in nodes], findings
        if lasting == self._written:
            return {}
        self._written = lasting
        wall_us = self._machine.clock.now().wall_us
        return {
            table: [{"wall_us": wall_us, **row} for row in rows]
            for table, rows in zip(self.tables, (nodes, findings), strict=True)
            if rows
        }


def _without_passing(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _PASSING}
