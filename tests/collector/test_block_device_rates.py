from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.disk_rates import Gap, add_up, has_moved, measure, subtract
from collector.diskstats import Statistics
from tests.collector.fake_machine import FIELDS

_SECOND_US = 1_000_000
_MS_FIELDS = ("read_ms", "write_ms", "busy_ms", "weighted_ms", "discard_ms", "flush_ms")
_COUNTERS = tuple(name for name in FIELDS if name not in {*_MS_FIELDS, "in_flight"})


def _statistics(**values: int | None) -> Statistics:
    return tuple(values.get(field, 0) for field in FIELDS)


def _measure(before: Statistics, now: Statistics, window_us: int = _SECOND_US) -> dict[str, object]:
    deltas = subtract(before, now, window_us)
    assert not isinstance(deltas, Gap), deltas
    return measure(deltas, window_us)


def _gain(deltas: Statistics | Gap, field: str) -> int | None:
    assert not isinstance(deltas, Gap), deltas
    return deltas[FIELDS.index(field)]


def test_formulas_on_numbers_worked_out_by_hand() -> None:
    before = _statistics(reads=1000, read_sectors=8000, read_ms=500, writes=10, weighted_ms=100)
    now = _statistics(
        reads=1200, read_merges=5, read_sectors=9600, read_ms=800,
        writes=60, write_sectors=4000, write_ms=25, in_flight=7, busy_ms=250, weighted_ms=1100,
        discards=4, discard_sectors=64, discard_ms=6, flushes=2, flush_ms=9,
    )  # fmt: skip
    row = _measure(before, now, 500_000)
    assert row == {
        "window_us": 500_000,
        "reads": 200,
        "read_merges": 5,
        "read_bytes": 1600 * 512,
        "read_await_mean_us": 1500.0,  # 300 ms over 200 reads
        "writes": 50,
        "write_merges": 0,
        "write_bytes": 4000 * 512,
        "write_await_mean_us": 500.0,
        "discards": 4,
        "discard_merges": 0,
        "discard_bytes": 64 * 512,
        "discard_await_mean_us": 1500.0,
        "flushes": 2,
        "flush_await_mean_us": 4500.0,
        "queue_mean": 2.0,  # 1000 ms of waiting in 500 ms
        "busy_ratio": 0.5,
        "busy_raw_ratio": 0.5,
        "io_stuck_candidate": False,
    }


def test_sectors_are_512_bytes_on_a_drive_with_4096_byte_blocks_too() -> None:
    # iostats.rst: sectors of 512 bytes, whatever the logical block size
    assert _measure(_statistics(), _statistics(reads=1, read_sectors=8))["read_bytes"] == 4096


def test_busy_above_one_is_cut_and_the_kernels_figure_kept_beside_it() -> None:
    # a rotating disk, two small reads at once: 1010 ms busy in 1000 ms, 4 I/Os
    row = _measure(_statistics(), _statistics(reads=4, busy_ms=1010))
    assert row["busy_ratio"] == 1.0
    assert row["busy_raw_ratio"] == pytest.approx(1.01)


def test_busy_all_the_time_says_nothing_about_latency_and_queue_of_an_nvme() -> None:
    # util 100 % at await 0.1 ms and a queue of 0.43 (sysstat#187)
    now = _statistics(reads=4300, read_ms=430, busy_ms=1000, weighted_ms=430)
    row = _measure(_statistics(), now)
    assert row["busy_ratio"] == 1.0
    assert row["read_await_mean_us"] == pytest.approx(100.0)
    assert row["queue_mean"] == pytest.approx(0.43)


def test_nothing_completed_leaves_means_unknown_and_marks_a_stuck_candidate() -> None:
    row = _measure(_statistics(), _statistics(weighted_ms=40_000, in_flight=3))
    assert row["io_stuck_candidate"] is True
    assert [value for name, value in row.items() if "await" in name] == [None] * 4


def test_an_idle_disk_is_not_stuck() -> None:
    assert _measure(_statistics(), _statistics())["io_stuck_candidate"] is False


def test_a_flush_that_completes_is_progress() -> None:
    row = _measure(_statistics(in_flight=1), _statistics(in_flight=1, flushes=1))
    assert row["io_stuck_candidate"] is False


@pytest.mark.parametrize(
    ("field", "old", "new", "gain"),
    [
        ("busy_ms", 4_294_967_000, 200, 496),  # munin#1119
        ("weighted_ms", 4_294_967_290, 10, 16),  # telegraf#17408
        ("read_ms", 4_294_967_295, 0, 1),
        ("flush_ms", 4_294_967_200, 100, 196),
    ],
)
def test_a_millisecond_field_wraps_once_at_32_bits(
    field: str, old: int, new: int, gain: int
) -> None:
    deltas = subtract(_statistics(**{field: old}), _statistics(**{field: new}), _SECOND_US)
    assert _gain(deltas, field) == gain


@pytest.mark.parametrize("field", _COUNTERS)
def test_any_other_counter_that_fell_is_a_gap_for_the_whole_line(field: str) -> None:
    # a device-mapper name used again gave 1.8e19 (sysstat#355)
    before = _statistics(**dict.fromkeys(FIELDS, 5000))
    now = _statistics(**{**dict.fromkeys(FIELDS, 6000), field: 4999})
    assert subtract(before, now, _SECOND_US) is Gap.COUNTER_FELL


def test_a_counter_that_fell_is_a_gap_even_if_a_time_looks_like_a_wrap() -> None:
    before = _statistics(reads=100, busy_ms=4_294_967_000)
    assert subtract(before, _statistics(reads=1, busy_ms=200), _SECOND_US) is Gap.COUNTER_FELL


def test_in_flight_is_a_gauge_and_may_fall() -> None:
    deltas = subtract(_statistics(in_flight=9), _statistics(in_flight=2), _SECOND_US)
    assert _gain(deltas, "in_flight") == 2


@pytest.mark.parametrize(
    ("field", "old", "new", "plausible"),
    [
        ("busy_ms", 4_294_966_296, 0, True),  # 1000 ms in 1000 ms
        ("busy_ms", 4_294_966_196, 0, True),  # 1100 ms: the kernel overstates
        ("busy_ms", 4_294_966_195, 0, False),  # 1101 ms
        ("busy_ms", 1000, 500, False),  # a wrap would be 49 days
        ("weighted_ms", 4_294_967_296 - 4_096_000, 0, True),
        ("weighted_ms", 4_294_967_296 - 4_096_001, 0, False),
    ],
)
def test_a_wrap_is_believed_only_if_the_time_could_have_passed(
    field: str, old: int, new: int, *, plausible: bool
) -> None:
    answer = subtract(_statistics(**{field: old}), _statistics(**{field: new}), _SECOND_US)
    assert (answer is not Gap.IMPLAUSIBLE) is plausible


def test_a_time_beyond_32_bits_that_fell_is_no_wrap() -> None:
    before, now = _statistics(read_ms=2**32), _statistics(read_ms=2**32 - 1)
    assert subtract(before, now, _SECOND_US) is Gap.COUNTER_FELL


def test_a_long_time_without_a_wrap_is_believed() -> None:
    # 1000 reads stuck for 30 s complete in one window of 100 ms
    now = _statistics(reads=1000, read_ms=30_000_000)
    assert _measure(_statistics(), now, 100_000)["read_await_mean_us"] == 30_000_000.0


def test_more_than_a_column_can_hold_is_implausible() -> None:
    assert subtract(_statistics(), _statistics(reads=2**32), _SECOND_US) is Gap.IMPLAUSIBLE
    sectors = _statistics(read_sectors=2**54)
    assert subtract(_statistics(), sectors, _SECOND_US) is Gap.IMPLAUSIBLE


@pytest.mark.parametrize("window_us", [0, -1, -3_600_000_000])
def test_no_usable_time_is_a_gap(window_us: int) -> None:
    assert subtract(_statistics(), _statistics(reads=5), window_us) is Gap.NO_TIME


def test_absent_fields_stay_unknown() -> None:
    old = _statistics(**dict.fromkeys(FIELDS[11:]))
    row = _measure(old, _statistics(reads=3, **dict.fromkeys(FIELDS[11:])))
    assert row["reads"] == 3
    assert row["discards"] is row["discard_bytes"] is row["discard_await_mean_us"] is None
    assert row["flushes"] is row["flush_await_mean_us"] is None


def test_the_four_values_of_an_old_partition_line_leave_all_else_unknown() -> None:
    few = {"reads", "read_sectors", "writes", "write_sectors"}
    absent = dict.fromkeys(name for name in FIELDS if name not in few)
    row = _measure(_statistics(**absent), _statistics(**{**absent, "reads": 10, "writes": 30}))
    assert (row["reads"], row["writes"]) == (10, 30)
    assert row["read_await_mean_us"] is row["queue_mean"] is row["busy_ratio"] is None


def test_paths_are_added_and_the_busiest_stands_for_the_time() -> None:
    one = _statistics(reads=300, read_ms=30, busy_ms=400, weighted_ms=30, in_flight=2)
    two = _statistics(reads=200, read_ms=70, busy_ms=700, weighted_ms=70, in_flight=1)
    both = _statistics(reads=500, read_ms=100, busy_ms=700, weighted_ms=100, in_flight=3)
    assert add_up([one, two]) == both


def test_what_one_path_does_not_tell_is_unknown_for_the_sum() -> None:
    both = add_up([_statistics(flushes=1), _statistics(flushes=None)])
    assert both[FIELDS.index("flushes")] is None


def test_in_flight_alone_is_no_movement() -> None:
    assert not has_moved(_statistics(in_flight=3))
    assert has_moved(_statistics(discards=1))


_values = st.tuples(*[st.one_of(st.none(), st.integers(0, 2**64 - 1))] * 17)
_windows = st.integers(-10, 2**33)


@given(_values, _values, _windows)
def test_no_pair_of_readings_gives_a_negative_or_endless_figure(
    before: Statistics, now: Statistics, window_us: int
) -> None:
    deltas = subtract(before, now, window_us)
    if isinstance(deltas, Gap):
        return
    for value in measure(deltas, window_us).values():
        assert value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


@given(
    st.tuples(*[st.integers(0, 2**31)] * 17),
    st.tuples(*[st.integers(0, 2**20)] * 17),
    st.integers(1, 10**9),
)
def test_counters_that_only_rise_give_exactly_what_they_gained(
    before: tuple[int, ...], gains: tuple[int, ...], window_us: int
) -> None:
    now = tuple(old + gain for old, gain in zip(before, gains, strict=True))
    deltas = subtract(before, now, window_us)
    for field in (*_COUNTERS, *_MS_FIELDS):
        assert _gain(deltas, field) == gains[FIELDS.index(field)]


@given(
    st.sampled_from([name for name in _MS_FIELDS if name != "busy_ms"]),
    st.integers(0, 2**32 - 1),
    st.integers(0, 4_096_000),
)
def test_a_wrap_is_the_identity(field: str, old: int, gained_ms: int) -> None:
    new = (old + gained_ms) % 2**32
    deltas = subtract(_statistics(**{field: old}), _statistics(**{field: new}), _SECOND_US)
    assert _gain(deltas, field) == gained_ms


@given(
    st.lists(st.tuples(*[st.integers(0, 2**20)] * 17), min_size=1, max_size=4),
)
def test_the_sum_of_paths_is_the_sum_of_their_reads(parts: list[tuple[int, ...]]) -> None:
    together = add_up(parts)
    assert together[0] == sum(part[0] for part in parts)
    assert together[9] == max(part[9] for part in parts)
