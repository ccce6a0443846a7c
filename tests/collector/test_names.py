from __future__ import annotations

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.names import NamesOfOneSource, PassingStore, StoredNames, describe
from collector.source import Row, SourceError
from stallscope.errors import LakeError
from tests.collector.stand_ins import ManualClock, MemoryStore

_ENGINE: Row = {
    "host": "a",
    "endpoint": "http://127.0.0.1:8000/metrics",
    "rank": "0",
    "model": "m",
    "config_hash": "c1",
    "name": "vllm-8000",
    "kind": "vllm",
    "version": "0.33.0",
}
_DISK: Row = {
    "kind": "disk",
    "name": "nvme0n1",
    "role": "nvme",
    "model": "X",
    "serial_hash": "5e",
    "scheduler": "none",
}


def _names(store: MemoryStore | None = None) -> tuple[StoredNames, MemoryStore]:
    store = store if store is not None else MemoryStore()
    return StoredNames(store, ManualClock()), store


def test_the_same_facts_get_the_same_id_and_one_row() -> None:
    names, store = _names()
    assert names.engine(_ENGINE) == names.engine(dict(_ENGINE))
    assert len(store.stored["engine"]) == 1


def test_a_restart_keeps_the_ids() -> None:
    names, store = _names()
    ids = names.engine(_ENGINE), names.device(_DISK)
    later, _ = _names(store)
    assert (later.engine(_ENGINE), later.device(_DISK)) == ids
    assert [len(rows) for rows in store.stored.values()] == [1, 1]


@pytest.mark.parametrize("column", ["host", "endpoint", "rank", "model", "config_hash"])
def test_another_engine_is_another_id(column: str) -> None:
    names, _ = _names()
    assert names.engine(_ENGINE) != names.engine({**_ENGINE, column: "other"})


@pytest.mark.parametrize("column", ["kind", "name", "serial_hash"])
def test_another_device_is_another_id(column: str) -> None:
    names, _ = _names()
    assert names.device(_DISK) != names.device({**_DISK, column: "other"})


def test_facts_that_change_are_written_under_the_old_id() -> None:
    names, store = _names()
    number = names.device(_DISK)
    assert names.device({**_DISK, "scheduler": "kyber"}) == number
    assert [row["scheduler"] for row in store.stored["device"]] == ["none", "kyber"]
    later, _ = _names(store)
    assert later.device({**_DISK, "scheduler": "kyber"}) == number
    assert len(store.stored["device"]) == 2


def test_a_missing_fact_is_null_and_differs_from_empty() -> None:
    names, store = _names()
    bare = {"kind": "disk", "name": "sda"}
    assert names.device(bare) == names.device({**bare, "serial_hash": None})
    assert store.stored["device"][0]["serial_hash"] is None
    assert names.device({**bare, "serial_hash": ""}) != names.device(bare)


def test_facts_are_written_before_their_id_is_used() -> None:
    names, store = _names()
    number = names.engine(_ENGINE)
    assert store.stored["engine"][0]["engine"] == number
    assert names.known("engine", number) == {**_ENGINE}
    assert names.known("engine", number + 1) is None


def test_ids_end_where_their_column_ends() -> None:
    names, store = _names()
    store.reserved["device"] = 65_535
    assert names.device(_DISK) == 65_535
    with pytest.raises(SourceError, match="all 65535 device ids"):
        names.device({**_DISK, "name": "nvme1n1"})


def test_request_ids_come_in_blocks_that_never_overlap() -> None:
    names, _ = _names()
    own = NamesOfOneSource(names, ManualClock())
    firsts = [names.requests(1_000), own.requests(10), names.requests(1_000)]
    assert firsts == [1, 1_001, 1_011]


def test_request_ids_end_where_their_column_ends() -> None:
    names, store = _names()
    store.reserved["request"] = 2**32 - 10
    assert names.requests(10) == 2**32 - 10
    with pytest.raises(SourceError, match="all 4294967295 request ids"):
        names.requests(1)


def test_a_full_disk_is_a_failure_of_the_source() -> None:
    class _Full(MemoryStore):
        def reserve(self, kind: str, count: int = 1, /) -> int:
            raise LakeError(f"cannot reserve {count} {kind}", "Free space")

    names, _ = _names(_Full())
    with pytest.raises(SourceError, match=r"cannot reserve 1 engine\. Free space"):
        names.engine(_ENGINE)
    with pytest.raises(SourceError, match=r"cannot reserve 5 request\. Free space"):
        names.requests(5)


def test_damaged_names_cost_old_ids_but_not_the_start(caplog: pytest.LogCaptureFixture) -> None:
    class _Damaged(MemoryStore):
        def facts(self, table: str, /) -> list[Row]:
            raise LakeError(f"segment of {table} is cut off")

    names, _ = _names(_Damaged(reserved={"engine": 5}))
    assert names.engine(_ENGINE) == 5
    assert any("segment of engine is cut off" in line for line in caplog.messages)


def test_threads_agree_on_ids() -> None:
    names, store = _names()
    found: list[int] = []

    def ask() -> None:
        found.extend(names.device({**_DISK, "name": f"nvme{n}n1"}) for n in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == found[:50] * 4
    assert len(store.stored["device"]) == 50


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.none() | st.just("s")))
)
def test_ids_are_a_bijection_over_restarts(disks: list[tuple[str, str, str | None]]) -> None:
    store = MemoryStore()
    ids: dict[tuple[str, str, str | None], int] = {}
    for disk in disks:
        names = StoredNames(store, ManualClock())
        number = names.device(dict(zip(("kind", "name", "serial_hash"), disk, strict=True)))
        assert ids.setdefault(disk, number) == number
    assert len(set(ids.values())) == len(ids)


def test_what_is_found_is_logged_once_in_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stallscope.collect")
    names, _ = _names()
    for _ in range(3):
        names.engine(_ENGINE)
        names.device(_DISK)
    assert caplog.messages == [
        "found engine vllm-8000 (vllm, model m, rank 0) at http://127.0.0.1:8000/metrics",
        "found disk nvme0n1 (nvme, X)",
    ]


def test_words_leave_out_what_is_not_known() -> None:
    engine = {"name": "e", "kind": "unknown", "endpoint": "u", "model": "", "rank": ""}
    assert describe("engine", engine) == "engine e (unknown) at u"
    assert describe("device", {"kind": "disk", "name": "sda"}) == "disk sda (role unknown)"


def test_a_source_remembers_whom_it_asked_for() -> None:
    clock = ManualClock()
    shared = StoredNames(PassingStore(), clock)
    mine, other = NamesOfOneSource(shared, clock), NamesOfOneSource(shared, clock)
    number = mine.device(_DISK)
    assert mine.device(_DISK) == number == other.device(_DISK)
    engine = mine.engine(_ENGINE)
    assert [row["device"] for row in mine.rows["device"]] == [number]
    assert mine.rows["engine"][0]["endpoint"] == _ENGINE["endpoint"]
    assert mine.rows["engine"][0]["engine"] == engine
    assert set(other.rows) == {"device"}
