"""Which metrics pages are read now: those of engines whose taps tell more are read less often.

A scrape costs a vLLM engine 4 to 16 ms of its event loop, which is the very stall that is looked
for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from collector.engine_harvest import TargetState
from collector.engine_target import EngineTarget
from collector.source import State
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_FINE = frozenset({State.WORKING, State.PARTIAL})
_EARLY = 0.9  # a poll that comes a little early must not wait for the next


def no_tapped_engines() -> frozenset[int]:
    """Return no engine: no tap tells of any."""
    return frozenset()


class ScrapePace:
    """Decides by address.

    Args:
        tapped_engines: Returns the ids of the engines whose steps are told by a tap right now.
        tapped_interval_us: How often their pages are read.
    """

    def __init__(
        self,
        tapped_engines: Callable[[], frozenset[int]] = no_tapped_engines,
        tapped_interval_us: int = 10 * US_PER_SECOND,
    ) -> None:
        self.tapped_interval_us = tapped_interval_us
        self._tapped_engines = tapped_engines
        self._read_us: dict[str, int] = {}
        self._tapped: frozenset[str] = frozenset()

    @property
    def is_slow(self) -> bool:
        """Whether some address is read less often than usual."""
        return bool(self._tapped)

    def pick(self, targets: Mapping[str, EngineTarget], now_us: int) -> list[str]:
        """Return the addresses to read now.

        Args:
            targets: What is known of each address.
            now_us: Monotonic time.
        """
        told = self._tapped_engines()
        tapped = frozenset(
            url
            for url, target in targets.items()
            if any(engine.engine in told for engine in target.engines)
        )
        self._tell(tapped, targets)
        due = [url for url in targets if url not in tapped or self._is_due(url, now_us)]
        self._read_us = {url: self._read_us.get(url, 0) for url in targets}
        return due

    def note(self, state: TargetState, now_us: int) -> None:
        """Note what became of an address: one that failed is read again at the usual pace."""
        self._read_us[state.url] = now_us if state.state in _FINE else 0

    def _is_due(self, url: str, now_us: int) -> bool:
        return now_us - self._read_us.get(url, 0) >= _EARLY * self.tapped_interval_us

    def _tell(self, tapped: frozenset[str], targets: Mapping[str, EngineTarget]) -> None:
        """Log each change of pace."""
        for url in tapped ^ self._tapped:
            if url in targets:
                every_s = self.tapped_interval_us / US_PER_SECOND
                pace = f"every {every_s:g} s, its tap tells more"
                how = pace if url in tapped else "at the usual pace again"
                _LOG.info("%s is read %s", targets[url].name, how)
        self._tapped = tapped
