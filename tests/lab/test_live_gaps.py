from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.live.client_gaps import Stamp, check_gaps, compare, read_stamps
from lab.live.stream import Timings
from stallscope.clock import SystemClock
from stallscope.storage.writer import Writer, WriterOptions

_OFFSET_US = 1_700_000_000_000_000


def _request(*arrivals_us: int, name: str = "cmpl-a") -> Timings:
    return Timings(start_us=0, chunks_us=list(arrivals_us), request_id=name)


def _sent(*times_us: int) -> list[Stamp]:
    """Stamps of chunks sent at these monotonic times."""
    stamps = [Stamp(_OFFSET_US + b, b - a) for a, b in itertools.pairwise(times_us)]
    return [*(Stamp(_OFFSET_US + first, None) for first in times_us[:1]), *stamps]


def test_delays_and_differences_are_taken_chunk_by_chunk() -> None:
    found = compare(
        {"cmpl-a": _sent(10_000, 20_000, 35_000)},
        [_request(11_000, 24_000, 36_000)],
        _OFFSET_US,
    )
    assert found.delays_us == [1_000, 4_000, 1_000]
    assert found.differences_us == [3_000, -3_000]
    assert (found.incomplete, found.beyond) == (0, 0)
    assert found.lag_us == 4_000
    assert [check.holds for check in check_gaps("x", found)] == [True, True, True]


def test_a_gap_that_the_delays_do_not_explain_is_found() -> None:
    """The stamps are right and the gap beside them is 5 ms too long."""
    wrong = [*_sent(10_000), Stamp(_OFFSET_US + 20_000, 15_000)]
    found = compare({"cmpl-a": wrong}, [_request(11_000, 21_000)], _OFFSET_US)
    assert found.beyond == 1
    assert [check.holds for check in check_gaps("x", found)] == [True, True, False]


def test_a_gap_that_lacks_is_as_wrong_as_one_of_nothing() -> None:
    lacks = [*_sent(10_000), Stamp(_OFFSET_US + 20_000, None)]
    assert compare({"cmpl-a": lacks}, [_request(11_000, 21_000)], _OFFSET_US).beyond == 1


@pytest.mark.parametrize("times", [(), (10_000,), (10_000, 20_000, 30_000)])
def test_a_chunk_too_few_or_too_many_is_incomplete(times: Sequence[int]) -> None:
    found = compare({"cmpl-a": _sent(*times)}, [_request(11_000, 21_000)], _OFFSET_US)
    assert found.incomplete == 1
    assert check_gaps("x", found)[0].holds is False


def test_a_chunk_that_arrives_before_it_was_sent_is_told() -> None:
    found = compare({"cmpl-a": _sent(10_000, 20_000)}, [_request(9_000, 21_000)], _OFFSET_US)
    assert check_gaps("x", found)[1].holds is False


def test_nothing_compared_is_no_success() -> None:
    assert [check.holds for check in check_gaps("x", compare({}, [], 0))] == [False, True, False]


def test_stamps_are_read_in_order_and_without_chunks_that_bring_no_output(tmp_path: Path) -> None:
    options = WriterOptions(sync=False, journal_s=0, live_seal_s=0, housekeeping_s=0)
    writer = Writer.open(tmp_path / "lake", "collect", clock=SystemClock(), options=options)
    writer.append(
        "token_gap",
        [
            _row(1, 1, itl_us=7_000, tokens=None),
            _row(1, 0, itl_us=None, tokens=2),
            _row(1, 2, itl_us=None, tokens=0),
            _row(2, 0, itl_us=None, tokens=1),
        ],
    )
    # Told twice, once by each part of a tap.
    names = [(1, "cmpl-a"), (2, "cmpl-b"), (1, "cmpl-a")]
    writer.append(
        "request_name", [{"wall_us": _OFFSET_US, "request": r, "name": n} for r, n in names]
    )
    writer.close()
    assert read_stamps(tmp_path / "lake") == {
        "cmpl-a": [Stamp(_OFFSET_US, None), Stamp(_OFFSET_US + 1, 7_000)],
        "cmpl-b": [Stamp(_OFFSET_US, None)],
    }


def _row(request: int, index: int, itl_us: int | None, tokens: int | None) -> dict[str, object]:
    return {
        "wall_us": _OFFSET_US + index,
        "engine": 1,
        "request": request,
        "chunk_index": index,
        "itl_us": itl_us,
        "tokens_in_output": tokens,
    }
