"""Which engine a tap's step or chunk belongs to.

A tap knows the index of its engine and mostly the port of its server. The engine of that port and
rank whose metrics page is read has an id already, and the tap's rows carry the same. Where no page
is found within five seconds the engine gets an id of its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.known_engine import KnownEngine
from collector.source import Machine, Row, SourceError
from collector.tap_sessions import SessionKey, TapSession
from stallscope.units import US_PER_SECOND

_PATIENCE_US = 5 * US_PER_SECOND
_AGAIN_US = US_PER_SECOND
_MOST_PLACES = 256
_MOST_OWN = 256  # engine ids are 16 bits for the life of a lake
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_KIND = "vllm"

Index = int | None


@dataclass(slots=True)
class _Place:
    """What is known of one engine index of one tap.

    Attributes:
        since_us: When it was asked for first.
        engine: Its id, once there is one.
        is_scraped: The id is that of an engine whose metrics page is read.
        asked_us: When the pages were looked through last.
    """

    since_us: int
    engine: int | None = None
    is_scraped: bool = False
    asked_us: int = -_AGAIN_US


class TapEngines:
    """Finds engine ids for taps; safe for threads.

    Args:
        machine: Host name and ids.
        engines: Returns the engines whose pages are read.
    """

    def __init__(self, machine: Machine, engines: Callable[[], Sequence[KnownEngine]]) -> None:
        self._machine = machine
        self._engines = engines
        self._lock = threading.Lock()
        self._places: OrderedDict[tuple[SessionKey, Index], _Place] = OrderedDict()
        self._own: set[tuple[object, ...]] = set()

    def find(
        self, session: TapSession, indices: Iterable[Index], now_us: int
    ) -> Mapping[Index, int] | None:
        """Return the id of each engine, or None while one may still turn up.

        Args:
            session: The tap.
            indices: Of engines as the tap counts them; None for "one of those behind its server".
            now_us: Monotonic time.

        Raises:
            SourceError: An engine got no id: those of this lake are used up, its disk is full, or
                taps have told of too many engines.
        """
        found: dict[Index, int] = {}
        with self._lock:
            for index in indices:
                engine = self._find(session, index, now_us)
                if engine is None:
                    return None
                found[index] = engine
        return found

    def settled(self, sessions: Iterable[TapSession], now_us: int) -> frozenset[int]:
        """Return the engines that these taps tell of and whose pages are read as well.

        There are none while one of the taps is looking for its page: then all are to be read often.
        """
        keys = {session.key for session in sessions}
        with self._lock:
            places = [place for (key, _), place in self._places.items() if key in keys]
        if any(now_us - place.since_us < _PATIENCE_US and not place.engine for place in places):
            return frozenset()
        return frozenset(place.engine for place in places if place.is_scraped and place.engine)

    def _find(self, session: TapSession, index: Index, now_us: int) -> int | None:
        place = self._place(session, index, now_us)
        if now_us - place.asked_us < _AGAIN_US and place.engine is not None:
            return place.engine
        place.asked_us = now_us
        candidates = self._candidates(session, place.since_us)
        page = _only(candidates, index)
        if page is not None:
            place.engine, place.is_scraped = page.engine, True
        elif place.engine is None and now_us - place.since_us >= _PATIENCE_US:
            place.engine = self._own_engine(self._own_facts(session, index, candidates))
        return place.engine

    def _place(self, session: TapSession, index: Index, now_us: int) -> _Place:
        """Return what is known of an index; what was not asked for longest is forgotten."""
        key = (session.key, index)
        place = self._places.setdefault(key, _Place(now_us))
        self._places.move_to_end(key)
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)
        return place

    def _own_engine(self, facts: Row) -> int:
        """Return the id of an engine without a page."""
        identity = tuple(facts[name] for name in ("endpoint", "rank", "model"))
        if identity not in self._own and len(self._own) >= _MOST_OWN:
            msg = f"taps have told of {_MOST_OWN} engines since the start, no more are taken up"
            raise SourceError(msg)
        self._own.add(identity)
        return self._machine.names.engine(facts)

    def _candidates(self, session: TapSession, since_us: int) -> list[KnownEngine]:
        """Return the engines that may be behind a tap's server, by pages read since it spoke."""
        engines = [engine for engine in self._engines() if engine.seen_mono_us >= since_us]
        if session.port is not None:
            engines = [engine for engine in engines if engine.port == session.port]
            here = [engine for engine in engines if self._is_local(engine.host)]
            engines = here or engines
        models = [engine for engine in engines if engine.model == session.model]
        return models or (engines if session.port is not None else [])

    def _is_local(self, host: str) -> bool:
        return host in _LOCAL or host == self._machine.host

    def _own_facts(
        self, session: TapSession, index: Index, candidates: Sequence[KnownEngine]
    ) -> Row:
        """Return the facts of an engine that has no page of its own."""
        if index is None and len(session.engines) == 1 and not candidates:
            index = next(iter(session.engines))
        rank = "" if index is None else str(index)
        port = "" if session.port is None else f":{session.port}"
        name = candidates[0].name if candidates else f"{_KIND}{port}"
        return {
            "host": self._machine.host,
            "endpoint": candidates[0].endpoint if candidates else f"127.0.0.1{port}",
            "rank": rank,
            "model": session.model or (candidates[0].model if candidates else ""),
            "name": name if rank in {"", "0"} else f"{name}/{rank}",
            "kind": _KIND,
            "config_hash": None,
            "version": session.engine_version,
        }


def _only(candidates: Sequence[KnownEngine], index: Index) -> KnownEngine | None:
    """Return the one engine that an index stands for, None when there is none or more than one."""
    fitting = [one for one in candidates if index is None or one.rank in {str(index), ""}]
    return fitting[0] if len(fitting) == 1 else None
