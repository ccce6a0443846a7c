"""How much may come at once, and what waits for the next poll."""

from __future__ import annotations

import pytest

from collector.otlp_bounds import BodyError, BusyError, ByteBudget
from collector.otlp_intake import Intake, Taken
from collector.otlp_json import read_json
from tests.collector.otlp_bodies import as_json, double, request, span, text, without
from tests.collector.stand_ins import SECOND, ManualClock


def test_a_budget_lets_the_last_one_overdraw_and_then_waits() -> None:
    clock = ManualClock()
    budget = ByteBudget(clock, bytes_per_second=1_000)
    budget.spend(999)
    budget.spend(2_501)  # one byte was left: overdrawn by 2,500
    with pytest.raises(BusyError) as refused:
        budget.spend(1)
    assert refused.value.retry_after_s == 3
    clock.advance(2_499_000)
    with pytest.raises(BusyError) as refused:
        budget.spend(1)
    assert refused.value.retry_after_s == 1
    clock.advance(2_000)
    budget.spend(1)


def test_a_budget_does_not_save_up() -> None:
    clock = ManualClock()
    budget = ByteBudget(clock, bytes_per_second=1_000)
    clock.advance(3_600 * SECOND)
    budget.spend(1_000)
    with pytest.raises(BusyError):
        budget.spend(1)


def test_what_unpacking_added_is_charged() -> None:
    clock = ManualClock()
    intake = Intake(clock, ByteBudget(clock, bytes_per_second=1_000))
    intake.admit(10)
    intake.charge(1_990)
    with pytest.raises(BusyError) as refused:
        intake.admit(10)
    assert refused.value.retry_after_s == 2


def test_a_poll_fetches_what_came_and_then_nothing() -> None:
    intake = Intake(ManualClock())
    body = as_json(request(span(), span(name="Load model"), span()))
    assert intake.take(read_json, body) == Taken(0, "")
    arrived = intake.drain()
    assert [one.name for one in arrived.requests] == ["cmpl-a-0"] * 2
    assert (arrived.ignored, arrived.rejects, arrived.why) == (1, 0, "")
    assert intake.drain().requests == []


def test_refused_spans_and_values_are_counted_and_told() -> None:
    intake = Intake(ManualClock())
    body = as_json(
        request(
            span(attributes=without("gen_ai.request.id")),
            span([double("gen_ai.latency.e2e", "NaN")]),
            span(endTimeUnixNano="0"),
        )
    )
    taken = intake.take(read_json, body)
    assert taken == Taken(
        2,
        "2 spans refused, first: a span without gen_ai.request.id; "
        "1 values left out, first: gen_ai.latency.e2e = nan",
    )
    arrived = intake.drain()
    assert (len(arrived.requests), arrived.rejects) == (1, 3)
    assert arrived.why == "a span without gen_ai.request.id"


def test_a_body_that_cannot_be_read_leaves_nothing() -> None:
    intake = Intake(ManualClock())
    with pytest.raises(BodyError):
        intake.take(read_json, b"[]")
    intake.refuse("no request")
    assert (intake.drain().rejects, intake.drain().rejects) == (1, 0)


def test_senders_wait_when_nobody_fetches() -> None:
    intake = Intake(ManualClock())
    body = as_json(request(*[span(attributes=[text("gen_ai.request.id", "x")])] * 10_010))
    for _ in range(2):
        intake.admit(1)
        intake.take(read_json, body)
    with pytest.raises(BusyError) as refused:
        intake.admit(1)
    assert refused.value.retry_after_s == 1
    assert len(intake.drain().requests) == 20_020
    intake.admit(1)
