"""Request ids: a tap numbers its requests, the lake gives each an id that is nobody else's.

The middleware knows a request by its own number and the engine's id of it, the engine's statistics
by that id only. Both get the same request id when they speak of the same request.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from collector.source import Names, Row
from collector.tap_request import STATS, TapRequest
from collector.tap_sessions import SessionKey, TapSession

_BLOCK = 1_000
_MOST_OPEN = 20_000
_COMPLETION = "cmpl-"
_FIRST_PROMPT = "-0"

NoteRequest = Callable[[str, int], None]
"""Told the engine's id of a request and its id in the lake."""

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _Known:
    """One request that is known by the engine's id.

    Attributes:
        request: Its id in the lake.
        number: The middleware's number of it, once that is known.
        has_stats: The engine's statistics have told of its end.
        has_ended: The middleware has told of its end.
    """

    request: int
    number: int | None = None
    has_stats: bool = False
    has_ended: bool = False


def forget_request(engine_id: str, request: int) -> None:
    """Do nothing: nobody else tells of requests."""
    del engine_id, request


class TapRequests:
    """Gives out request ids and remembers the requests that may still come up; safe for threads.

    Args:
        names: Reserves ids.
        store_ids: Whether table request_name gets the engine's ids instead of their hashes.
        note_request: Told of each request whose engine's id becomes known.
    """

    def __init__(
        self,
        names: Names,
        *,
        store_ids: bool = False,
        note_request: NoteRequest = forget_request,
    ) -> None:
        self._names = names
        self._store_ids = store_ids
        self._note_request = note_request
        self._lock = threading.Lock()
        self._next = self._end = 0
        self._by_number: OrderedDict[tuple[SessionKey, int], int] = OrderedDict()
        self._by_id: OrderedDict[tuple[SessionKey, str], _Known] = OrderedDict()
        self._engines: OrderedDict[tuple[SessionKey, str], int] = OrderedDict()
        self._new_names: list[tuple[int, str]] = []

    def of_numbers(
        self, session: TapSession, numbers: npt.NDArray[np.number]
    ) -> npt.NDArray[np.uint32]:
        """Return the request id of each of a tap's numbers.

        Raises:
            SourceError: No ids can be reserved.
        """
        distinct, places = np.unique(numbers, return_inverse=True)
        with self._lock:
            ids = [self._of_number((session.key, number)) for number in distinct.tolist()]
        return np.array(ids, dtype=np.uint32)[places]

    def follow(self, session: TapSession, told: TapRequest) -> int | None:
        """Return the id of a request that a tap tells of; None when it says neither number nor id.

        Raises:
            SourceError: No ids can be reserved.
        """
        with self._lock:
            if told.source == STATS:
                return self._follow_stats(session.key, told)
            return self._follow_asgi(session.key, told)

    def note_engine(self, session: TapSession, told: TapRequest) -> None:
        """Remember the engine of a request, as the statistics tell."""
        if told.id is not None and told.engine is not None:
            key = (session.key, shown_id(told.id))
            with self._lock:
                self._engines[key] = told.engine
                _keep_newest(self._engines, key)

    def engine_of(self, session: TapSession, told: TapRequest) -> int | None:
        """Return the index of the engine that served a request; None when nobody told."""
        with self._lock:
            return self._engines.get((session.key, told.id or ""))

    def take_names(self, wall_us: int) -> list[Row]:
        """Return the rows of table request_name for requests that became known since."""
        with self._lock:
            names, self._new_names = self._new_names, []
        return [{"wall_us": wall_us, "request": request, "name": name} for request, name in names]

    def _follow_asgi(self, session: SessionKey, told: TapRequest) -> int | None:
        if told.id is None:
            return None if told.number is None else self._of_number((session, told.number))
        key = (session, told.id)
        known = self._by_id.get(key)
        if known is None or known.number not in {None, told.number}:  # an id that a client repeats
            known = self._remember(key, self._new_request(session, told.number))
        known.number = told.number
        known.has_ended |= told.has_ended
        if told.number is not None:
            self._settle(key, known, (session, told.number))
        self._forget_complete(key, known)
        return known.request

    def _follow_stats(self, session: SessionKey, told: TapRequest) -> int:
        key = (session, shown_id(told.id) if told.id is not None else "")
        known = self._by_id.get(key) if told.id is not None else None
        # One request has several ends where it asked for several answers; after the end of the
        # HTTP request, or without a middleware, the same id is another request's.
        if known is None or (known.has_stats and (known.has_ended or known.number is None)):
            request = self._new_id()
            known = self._remember(key, request) if told.id is not None else _Known(request)
        known.has_stats = True
        self._forget_complete(key, known)
        return known.request

    def _settle(
        self, key: tuple[SessionKey, str], known: _Known, number: tuple[SessionKey, int]
    ) -> None:
        """Give number and id one request; chunks that came before have one, and that wins."""
        request = self._by_number.setdefault(number, known.request)
        if request != known.request:
            known.request = request
            self._name(request, key[1])

    def _forget_complete(self, key: tuple[SessionKey, str], known: _Known) -> None:
        """Forget a request of which nothing more is to come; its number may still have chunks."""
        if known.has_stats and known.has_ended:
            self._by_id.pop(key, None)

    def _new_request(self, session: SessionKey, number: int | None) -> int:
        return self._new_id() if number is None else self._of_number((session, number))

    def _of_number(self, key: tuple[SessionKey, int]) -> int:
        request = self._by_number.get(key)
        if request is None:
            request = self._by_number[key] = self._new_id()
        _keep_newest(self._by_number, key)
        return request

    def _remember(self, key: tuple[SessionKey, str], request: int) -> _Known:
        known = self._by_id[key] = _Known(request)
        _keep_newest(self._by_id, key)
        self._name(request, key[1])
        return known

    def _name(self, request: int, shown: str) -> None:
        self._new_names.append((request, shown if self._store_ids else hash_of(shown)))
        del self._new_names[:-_MOST_OPEN]
        self._note_request(shown, request)

    def _new_id(self) -> int:
        if self._next == self._end:
            self._next = self._names.requests(_BLOCK)
            self._end = self._next + _BLOCK
        self._next += 1
        return self._next - 1


def shown_id(engine_id: str) -> str:
    """Return an engine's id of a request as the answer shows it.

    vLLM numbers the prompts of a completion: ``cmpl-x-0`` is the first, and mostly the only one, of
    the request whose answer says ``cmpl-x``.
    """
    if engine_id.startswith(_COMPLETION):
        return engine_id.removesuffix(_FIRST_PROMPT)
    return engine_id


def hash_of(shown: str) -> str:
    """Return what table request_name holds for an id: BLAKE2b of it, 16 bytes as hex."""
    return hashlib.blake2b(shown.encode(), digest_size=16).hexdigest()


def _keep_newest(known: OrderedDict[_Key, _Value], key: _Key) -> None:
    """Make a key the newest, and forget the oldest beyond what is kept."""
    known.move_to_end(key)
    if len(known) > _MOST_OPEN:
        known.popitem(last=False)
