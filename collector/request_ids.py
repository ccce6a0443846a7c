"""Ids of requests, shared by all who tell of them: taps and traces of one request meet here.

Every source of a run gets the same `RequestIds` as `Links.request_ids`. Who has given a request an
id already says so by `note`; who only has the engine's id of it asks `ids_of`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from collector.source import Names, Row
from collector.tap_requests import hash_of, shown_id

_BLOCK = 1_000
_MOST_KNOWN = 100_000


class RequestIds:
    """Ids by the engine's id of a request. Safe from any thread.

    The last 100,000 requests are known: all that is told of one comes within minutes. Where clients
    repeat an id, its last request counts.

    Args:
        names: Gives out blocks of ids.
        store_ids: Whether table request_name gets the engine's ids instead of their hashes.
        most_known: How many requests are known at a time.
    """

    def __init__(
        self, names: Names, *, store_ids: bool = False, most_known: int = _MOST_KNOWN
    ) -> None:
        self._names = names
        self._store_ids = store_ids
        self._most_known = most_known
        self._lock = threading.Lock()
        self._known: OrderedDict[str, int] = OrderedDict()
        self._new: list[tuple[int, str]] = []
        self._next = self._end = 0

    def note(self, shown: str, request: int) -> None:
        """Remember the id that a request was given by somebody else.

        Args:
            shown: The engine's id of it as the answer shows it, see `shown_id`.
            request: Its id in the lake.
        """
        with self._lock:
            self._keep(self._name_of(shown), request)

    def ids_of(self, engine_ids: Sequence[str]) -> list[int]:
        """Return the id of each request; one that nobody has told of yet gets a new one.

        Args:
            engine_ids: The engine's ids of them.

        Raises:
            SourceError: No ids can be reserved.
        """
        with self._lock:
            return [self._id_of(self._name_of(shown_id(one))) for one in engine_ids]

    def take_names(self, wall_us: int) -> list[Row]:
        """Return the rows of table request_name for the ids given out here since the last call."""
        with self._lock:
            new, self._new = self._new, []
        return [{"wall_us": wall_us, "request": request, "name": name} for request, name in new]

    def _name_of(self, shown: str) -> str:
        """Return what is kept of an engine's id: clients choose some, and some tell of people."""
        return shown if self._store_ids else hash_of(shown)

    def _id_of(self, name: str) -> int:
        request = self._known.get(name)
        if request is None:
            request = self._take()
            self._new.append((request, name))
        self._keep(name, request)
        return request

    def _keep(self, name: str, request: int) -> None:
        self._known[name] = request
        self._known.move_to_end(name)
        if len(self._known) > self._most_known:
            self._known.popitem(last=False)

    def _take(self) -> int:
        if self._next == self._end:
            self._next = self._names.requests(_BLOCK)
            self._end = self._next + _BLOCK
        self._next += 1
        return self._next - 1
