from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from collector.health import Outcome, Tally, service_row
from collector.pace import Start
from collector.source import State
from stallscope.clock import Instant
from stallscope.schema import table
from tests.collector.stand_ins import SECOND, WALL

_ON_TIME = Start(0, 0)
_FINE = Outcome(State.WORKING, rows=3)


def _at(second: float) -> Instant:
    return Instant(WALL, round(second * SECOND))


def _tally(deadline_us: int = SECOND) -> Tally:
    return Tally("block_device", deadline_us)


def _poll(tally: Tally, at_us: int, took_us: int, outcome: Outcome = _FINE) -> None:
    tally.begin(at_us, _ON_TIME)
    tally.end(at_us + took_us, outcome, cpu_us=7)


def test_nothing_is_said_before_the_first_poll_is_over() -> None:
    tally = _tally()
    assert tally.take_row(_at(0)) is None
    tally.begin(0, _ON_TIME)
    assert tally.take_row(_at(0.5)) is None


def test_polls_of_a_second_add_up() -> None:
    tally = _tally()
    _poll(tally, 0, 100)
    _poll(tally, 1_000, 300, Outcome(State.WORKING, rows=2, rejects=4, dropped=5))
    assert tally.take_row(_at(1)) == {
        "wall_us": WALL,
        "mono_us": SECOND,
        "source": "block_device",
        "state": "working",
        "reason": None,
        "reads": 2,
        "rows": 5,
        "rejects": 4,
        "failures": 0,
        "dropped": 5,
        "read_mean_us": 200,
        "read_max_us": 300,
        "lag_us": 0,
        "cpu_us": 14,
    }


def test_what_was_told_is_not_told_again() -> None:
    tally = _tally()
    _poll(tally, 0, 100)
    assert tally.take_row(_at(1)) is not None
    _poll(tally, SECOND, 50)
    row = tally.take_row(_at(2))
    assert row is not None
    assert (row["reads"], row["rows"], row["read_max_us"]) == (1, 3, 50)


def test_a_fine_source_that_was_not_due_is_silent() -> None:
    tally = _tally()
    _poll(tally, 0, 100)
    tally.take_row(_at(1))
    assert tally.take_row(_at(2)) is None


def test_a_source_that_does_not_deliver_says_so_every_second() -> None:
    tally = _tally()
    _poll(tally, 0, 100, Outcome(State.NOT_FOUND, "no engine on ports 8000, 8001"))
    tally.take_row(_at(1))
    row = tally.take_row(_at(2))
    assert row is not None
    assert (row["state"], row["reads"]) == ("not_found", 0)
    assert row["read_mean_us"] is None
    assert row["reason"] == "no engine on ports 8000, 8001"


def test_a_failed_poll_counts_as_read_and_failure() -> None:
    tally = _tally()
    _poll(tally, 0, 10, Outcome(State.FAILED, "connection refused"))
    row = tally.take_row(_at(1))
    assert row is not None
    assert (row["state"], row["reads"], row["failures"]) == ("failed", 1, 1)


def test_a_poll_past_its_deadline_is_hung_until_it_comes_back() -> None:
    tally = _tally(deadline_us=2 * SECOND)
    _poll(tally, 0, 100)
    tally.begin(SECOND, _ON_TIME)
    at_deadline = tally.take_row(_at(3))
    assert at_deadline is not None
    assert at_deadline["state"] == "working"  # exactly at the deadline is in time
    late = tally.take_row(_at(3.5))
    assert late is not None
    assert (late["state"], late["reads"]) == ("hung", 0)
    assert late["reason"] == "a poll has run for 2 s, its deadline is 2 s"
    tally.end(4 * SECOND, _FINE, cpu_us=1)
    back = tally.take_row(_at(4.5))
    assert back is not None
    assert (back["state"], back["read_max_us"]) == ("working", 3 * SECOND)


def test_a_source_that_misses_most_of_its_ticks_is_late() -> None:
    tally = _tally()
    for skipped in (1, 2):
        tally.begin(0, Start(lag_us=250, skipped=skipped))
        tally.end(10, _FINE, cpu_us=0)
    row = tally.take_row(_at(1))
    assert row is not None
    assert (row["state"], row["lag_us"]) == ("late", 250)
    assert row["reason"] == "3 of its ticks were skipped, 2 were kept"


def test_one_skipped_tick_among_kept_ones_is_no_state() -> None:
    tally = _tally()
    tally.begin(0, Start(lag_us=250, skipped=1))
    tally.end(10, _FINE, cpu_us=0)
    row = tally.take_row(_at(1))
    assert row is not None
    assert row["state"] == "working"


def test_a_poll_of_hours_still_fits_its_column() -> None:
    tally = _tally()
    _poll(tally, 0, 2 * 3_600 * SECOND)
    row = tally.take_row(_at(7_300))
    assert row is not None
    assert row["read_max_us"] == 2**32 - 1


def test_a_part_that_is_not_polled_leaves_poll_columns_empty() -> None:
    row = service_row("storage", _at(1), Outcome(State.FAILED, "disk full"), {"dropped": 9})
    assert (row["source"], row["state"], row["dropped"]) == ("storage", "failed", 9)
    assert row["cpu_us"] is None
    assert row["read_mean_us"] is None


@given(
    polls=st.lists(
        st.builds(
            Outcome,
            state=st.sampled_from([State.WORKING, State.PARTIAL, State.FAILED, State.GONE]),
            reason=st.text(max_size=5),
            rows=st.integers(0, 1_000),
            rejects=st.integers(0, 1_000),
            dropped=st.integers(0, 1_000),
        ),
        max_size=30,
    ),
    taken_after=st.sets(st.integers(0, 30)),
)
def test_nothing_is_lost_or_counted_twice(polls: list[Outcome], taken_after: set[int]) -> None:
    tally = _tally()
    rows: list[Mapping[str, object]] = []
    for index, outcome in enumerate(polls):
        _poll(tally, index * 1_000, 10, outcome)
        if index in taken_after:
            rows.append(tally.take_row(_at(1)) or {})
    rows.append(tally.take_row(_at(2)) or {})

    def total(column: str) -> int:
        return sum(value for row in rows if isinstance(value := row.get(column, 0), int))

    assert total("reads") == len(polls)
    assert total("rows") == sum(outcome.rows for outcome in polls)
    assert total("rejects") == sum(outcome.rejects for outcome in polls)
    assert total("dropped") == sum(outcome.dropped for outcome in polls)
    assert total("failures") == sum(outcome.state is State.FAILED for outcome in polls)
    assert total("cpu_us") == 7 * len(polls)


def test_every_column_of_a_row_is_in_the_schema() -> None:
    row = service_row("collector", _at(1), _FINE, {"resident_bytes": 1})
    known = {column.name for column in table("source_health").columns}
    assert set(row) <= known
