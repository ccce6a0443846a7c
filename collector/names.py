"""Ids of engines, devices and requests: none is given out twice, for as long as the lake lives."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from collector.source import Row, SourceError
from stallscope.clock import Clock
from stallscope.errors import LakeError
from stallscope.schema import table

_LOG = logging.getLogger("stallscope.collect")
_LARGEST_ID = 2**16 - 1  # columns ENGINE and DEVICE are uint16
_LARGEST_REQUEST = 2**32 - 1


class FactStore(Protocol):
    """What ids are made from; `stallscope.storage.writer.Writer` is one."""

    def append(self, table: str, rows: Sequence[Row], /) -> None:
        """Keep rows of a table."""

    def reserve(self, kind: str, count: int = 1, /) -> int:
        """Return the first id of a block that is never given out again."""

    def facts(self, table: str, /) -> Sequence[Row]:
        """Return the rows of a fact table that are there already, oldest first."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of id.

    Attributes:
        table: Fact table that says what an id stands for; also the id's column.
        identity: Columns that make the entity; the other columns may change under the same id.
    """

    table: str
    identity: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the fact table but time and id."""
        return tuple(
            column.name
            for column in table(self.table).columns
            if column.name not in {"wall_us", self.table}
        )


_ENGINE = _Kind("engine", ("host", "endpoint", "kind", "rank", "model", "config_hash"))
_DEVICE = _Kind("device", ("kind", "name", "serial_hash"))


class _Ids:
    """The ids of one kind and the facts behind them."""

    def __init__(self, kind: _Kind, store: FactStore) -> None:
        self._kind = kind
        self._columns = kind.columns
        self._facts: dict[int, Row] = {}
        self._ids: dict[tuple[object, ...], int] = {}
        self._met: set[int] = set()
        for row in _earlier_facts(store, kind.table):
            number = row[kind.table]
            if isinstance(number, int):
                self._keep(number, self._comparable(row))

    def known(self, number: int) -> Row | None:
        """Return the facts behind an id."""
        return self._facts.get(number)

    def find(self, facts: Row, store: FactStore, clock: Clock) -> int:
        """Return the id of these facts; new facts are written before their id is used."""
        wanted = self._comparable(facts)
        number = self._ids.get(self._identity(wanted))
        if number is None:
            number = self._reserve(store)
        if self._facts.get(number) != wanted:
            stamp = {"wall_us": clock.now().wall_us, self._kind.table: number}
            store.append(self._kind.table, [{**stamp, **wanted}])
            self._keep(number, wanted)
        if number not in self._met:
            self._met.add(number)
            _LOG.info("found %s", describe(self._kind.table, wanted))
        return number

    def _reserve(self, store: FactStore) -> int:
        try:
            number = store.reserve(self._kind.table)
        except LakeError as error:
            raise SourceError(str(error)) from error
        if number > _LARGEST_ID:
            msg = f"all {_LARGEST_ID} {self._kind.table} ids of this lake are used up"
            raise SourceError(msg)
        return number

    def _comparable(self, facts: Row) -> dict[str, object]:
        return {name: facts.get(name) for name in self._columns}

    def _identity(self, facts: Row) -> tuple[object, ...]:
        return tuple(facts[name] for name in self._kind.identity)

    def _keep(self, number: int, facts: Row) -> None:
        self._facts[number] = facts
        self._ids[self._identity(facts)] = number


def _earlier_facts(store: FactStore, name: str) -> Sequence[Row]:
    """Return what earlier runs wrote; a damaged segment costs old names, not the new run."""
    try:
        return store.facts(name)
    except LakeError as error:
        _LOG.warning("table %s cannot be read, its entities get new ids: %s", name, error)
        return ()


class StoredNames:
    """Names over a store, for all threads of a process.

    Args:
        store: Where facts are read from and written to.
        clock: Stamps new facts.
    """

    def __init__(self, store: FactStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds = {kind.table: _Ids(kind, store) for kind in (_ENGINE, _DEVICE)}

    def engine(self, facts: Row) -> int:
        """Return the id of an engine, writing a row when its facts are new.

        Raises:
            SourceError: The ids of this lake are used up.
        """
        return self._find("engine", facts)

    def device(self, facts: Row) -> int:
        """Return the id of a device, writing a row when its facts are new.

        Raises:
            SourceError: The ids of this lake are used up.
        """
        return self._find("device", facts)

    def requests(self, count: int) -> int:
        """Return the first of so many request ids that were never given out.

        Raises:
            SourceError: The ids of this lake are used up, or none could be reserved on its disk.
        """
        try:
            first = self._store.reserve("request", count)
        except LakeError as error:
            raise SourceError(str(error)) from error
        if first + count - 1 > _LARGEST_REQUEST:
            msg = f"all {_LARGEST_REQUEST} request ids of this lake are used up"
            raise SourceError(msg)
        return first

    def known(self, kind: str, number: int) -> Row | None:
        """Return the facts behind an id, or None when it was never given out.

        Args:
            kind: ``engine`` or ``device``.
            number: The id.
        """
        with self._lock:
            return self._kinds[kind].known(number)

    def _find(self, kind: str, facts: Row) -> int:
        with self._lock:
            return self._kinds[kind].find(facts, self._store, self._clock)


class PassingStore:
    """A fact store that lasts as long as the process: for readings that are not kept."""

    def __init__(self) -> None:
        self._next = 0

    def append(self, table: str, rows: Sequence[Row], /) -> None:
        """Forget the rows: `StoredNames` remembers what they say."""

    def reserve(self, kind: str, count: int = 1, /) -> int:
        """Return the next free id, counted over all kinds."""
        del kind
        first = self._next + 1
        self._next += count
        return first

    def facts(self, table: str, /) -> Sequence[Row]:
        """Return nothing: no run came before."""
        del table
        return ()


class NamesOfOneSource:
    """Names that also remember which facts one source asked for."""

    def __init__(self, names: StoredNames, clock: Clock) -> None:
        self._names = names
        self._clock = clock
        self.rows: dict[str, list[Row]] = {}

    def engine(self, facts: Row) -> int:
        """Return the id of an engine."""
        return self._remember("engine", self._names.engine(facts))

    def device(self, facts: Row) -> int:
        """Return the id of a device."""
        return self._remember("device", self._names.device(facts))

    def requests(self, count: int) -> int:
        """Return the first of so many request ids."""
        return self._names.requests(count)

    def _remember(self, kind: str, number: int) -> int:
        rows = self.rows.setdefault(kind, [])
        if all(row[kind] != number for row in rows):
            facts: Mapping[str, object] = self._names.known(kind, number) or {}
            rows.append({"wall_us": self._clock.now().wall_us, kind: number, **facts})
        return number


def describe(kind: str, facts: Row) -> str:
    """Return an entity in words, for the log: what it is, its name and where.

    Args:
        kind: ``engine`` or ``device``.
        facts: Its row without time and id.
    """
    if kind == "engine":
        rank = f", rank {facts['rank']}" if facts.get("rank") else ""
        model = f", model {facts['model']}" if facts.get("model") else ""
        what = f"{facts.get('kind')}{model}{rank}"
        return f"engine {facts.get('name')} ({what}) at {facts.get('endpoint')}"
    model = f", {facts['model']}" if facts.get("model") else ""
    return f"{facts.get('kind')} {facts.get('name')} ({facts.get('role') or 'role unknown'}{model})"
