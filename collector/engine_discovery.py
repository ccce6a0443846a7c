"""Which addresses are read: those configured, else local ports where an engine answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from collector.edges.http_scrape import ScrapeError
from collector.edges.promtext import Parser
from collector.engine_names import detect_kind
from collector.engine_scrapes import Fetch
from collector.source import State
from stallscope.clock import Clock
from stallscope.settings import EngineTarget
from stallscope.units import US_PER_MS, US_PER_SECOND

OWN_PORTS = frozenset({9871, 9872, 8501, 4317, 4318})
"""Where we listen ourselves: collect, watch, dashboard, OTLP. Never probed."""

_PROBE_US = 300 * US_PER_MS
_AGAIN_US = 10 * US_PER_SECOND
_LONGEST_AGAIN_US = 120 * US_PER_SECOND
_NEVER = 2**63


@dataclass(frozen=True, slots=True)
class Answer:
    """What one probed port said last.

    Attributes:
        port: The port.
        url: The address that was asked.
        state: ``working`` where an engine answers.
        reason: The answer in words.
        wall_us: When it was asked.
        kind: Kind of engine; empty where there is none.
        refused: Nothing listens there.
    """

    port: int
    url: str
    state: State
    reason: str
    wall_us: int
    kind: str = ""
    refused: bool = False


@dataclass(slots=True)
class _Port:
    """When a port is asked again; doubles while something that is no engine answers there."""

    due_us: int = 0
    pause_us: int = _AGAIN_US
    answer: Answer | None = None


class EngineDiscovery:
    """Finds the addresses of engines.

    Args:
        configured: Engines that a person named; where there are any, nothing is probed.
        ports: Loopback ports to probe.
        fetch: Gets a page.
        clock: When to probe again.
        enabled: Whether to probe at all.
        own_ports: Ports that are never probed.
    """

    def __init__(
        self,
        configured: Sequence[EngineTarget],
        ports: Iterable[int],
        fetch: Fetch,
        clock: Clock,
        *,
        enabled: bool = True,
        own_ports: frozenset[int] = OWN_PORTS,
    ) -> None:
        self._configured = tuple(configured)
        self._fetch = fetch
        self._clock = clock
        probing = enabled and not self._configured
        self._ports = {port: _Port() for port in ports if port not in own_ports} if probing else {}
        self._enabled = enabled

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What every probed port said last, in the order of the ports."""
        said = (port.answer for _, port in sorted(self._ports.items()))
        return tuple(answer for answer in said if answer is not None)

    def targets(self) -> tuple[EngineTarget, ...]:
        """Return the addresses to read, probing ports whose time has come.

        A port where an engine was found is not probed again: it is read, and its absence shows.
        """
        if self._configured:
            return self._configured
        now_us = self._clock.now().mono_us
        due = [number for number, port in self._ports.items() if port.due_us <= now_us]
        if due:
            self._probe(due)
        return tuple(
            EngineTarget(f"{answer.kind}:{answer.port}", answer.url)
            for answer in self.answers
            if answer.kind
        )

    def lose(self, url: str) -> None:
        """Take back an address where something else answers now; its port is probed again."""
        for port in self._ports.values():
            if port.answer is not None and port.answer.url == url:
                port.answer = None
                port.due_us = 0

    def explain_absence(self) -> tuple[State, str]:
        """Return why there is nothing to read, naming what every port said."""
        if not self._enabled and not self._configured:
            return State.DISABLED, "no engine is configured and discovery is switched off"
        said = "; ".join(f"{answer.port}: {answer.reason}" for answer in self.answers)
        return State.NOT_FOUND, f"no engine on local ports ({said or 'none to probe'})"

    def _probe(self, numbers: Sequence[int]) -> None:
        with ThreadPoolExecutor(len(numbers), thread_name_prefix="engine-probe") as pool:
            self._probe_with(pool, numbers)

    def _probe_with(self, pool: Executor, numbers: Sequence[int]) -> None:
        for number, answer in zip(numbers, pool.map(self._ask, numbers), strict=True):
            port = self._ports[number]
            port.answer = answer
            port.due_us = _NEVER if answer.kind else self._clock.now().mono_us + port.pause_us
            longer = min(2 * port.pause_us, _LONGEST_AGAIN_US)
            port.pause_us = _AGAIN_US if answer.kind or answer.refused else longer

    def _ask(self, port: int) -> Answer:
        """Return what a port says. TensorRT-LLM has JSON at /metrics, its series elsewhere."""
        answer = self._ask_path(port, "/metrics")
        if "json" in answer.reason:
            other = self._ask_path(port, "/prometheus/metrics")
            return other if other.kind else answer
        return answer

    def _ask_path(self, port: int, path: str) -> Answer:
        url = f"http://127.0.0.1:{port}{path}"
        wall_us = self._clock.now().wall_us
        try:
            scrape = self._fetch(url, _PROBE_US)
        except ScrapeError as error:
            refused = error.refused
            return Answer(port, url, error.state, error.reason, wall_us, refused=refused)
        page = Parser().parse(scrape.body, scrape.content_type, cut=scrape.cut)
        kind = detect_kind(page.values)
        if kind is None:
            reason = f"answers with {page.samples} samples, 0 engine series"
            return Answer(port, url, State.NOT_FOUND, reason, wall_us)
        return Answer(port, url, State.WORKING, f"found {kind.name}", wall_us, kind.name)
