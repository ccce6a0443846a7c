from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from collector.engine_steps import EngineSteps
from collector.source import State
from lab.synthetic.tap_datagrams import MISSING, Column, TapSender, encode
from stallscope.schema import arrow_schema
from tests.collector.stand_ins import SECOND
from tests.collector.tap_replay import gaps_of, read_records, replay_steps
from tests.collector.tap_stand_ins import TapHost, known_engine
from tests.conftest import REPO

_CAPTURES = REPO / "tests/captures/taps"
_RUN = _CAPTURES / "vllm-0.32__cpu__24-requests/steps.jsonl"
_PREEMPTION = _CAPTURES / "vllm-0.32__cpu__preemption/steps.jsonl"
_DP2 = _CAPTURES / "vllm-0.32__cpu__dp2/steps.jsonl"


@pytest.fixture
def host(tmp_path: Path) -> TapHost:
    return TapHost(tmp_path)


@pytest.fixture
def sender() -> TapSender:
    return TapSender()


def test_a_recorded_run_has_a_gap_for_every_token_but_the_first(
    host: TapHost, sender: TapSender
) -> None:
    rows = replay_steps(host, read_records(_RUN), sender)
    steps = rows["engine_step"]
    assert len(steps) == 136  # one row a step: nobody was preempted
    assert sum(row["outputs"] for row in steps if row["itl_us"] is not None) == 24 * 63
    assert sum(row["generation_tokens"] for row in steps) == 24 * 64
    assert len(rows["first_token"]) == len(rows["request"]) == len(rows["request_name"]) == 24
    assert {row["engine"] for row in (*steps, *rows["first_token"], *rows["request"])} == {11}
    assert not any(row["outlier"] for row in steps)


def test_times_of_a_step_are_those_of_the_engine(host: TapHost, sender: TapSender) -> None:
    record = read_records(_RUN)[1]
    [row] = replay_steps(host, [record], sender)["engine_step"]
    assert row["mono_us"] == row["engine_mono_us"]
    assert abs(row["wall_us"] - record["iter"]["ts"] * SECOND) <= 2
    since = record["t"] - record["iter"]["ts"]  # the plugin was called so long after the step
    assert abs(row["mono_us"] - (record["mono"] - since) * SECOND) <= 2


def test_a_step_of_which_another_server_was_told_has_no_counters(
    host: TapHost, sender: TapSender
) -> None:
    host.engines[:] = [known_engine(21, rank="0"), known_engine(22, rank="1")]
    records = read_records(_DP2)
    steps = replay_steps(host, records, sender)["engine_step"]
    unseen = [row for row in steps if row["running"] is None]
    assert len(unseen) == sum(record.get("sched") is None for record in records) > 0
    assert {row["kv_usage_ratio"] for row in unseen} == {None}
    assert None not in {row["generation_tokens"] for row in unseen}


def test_ranks_of_data_parallelism_are_engines_of_their_own(
    host: TapHost, sender: TapSender
) -> None:
    host.engines[:] = [known_engine(21, rank="0"), known_engine(22, rank="1")]
    records = read_records(_DP2)
    rows = replay_steps(host, records, sender)
    for engine, rank in ((21, 0), (22, 1)):
        told = [record["iter"] for record in records if record["engine"] == rank]
        own = [row for row in rows["engine_step"] if row["engine"] == engine]
        assert sum(row["generation_tokens"] for row in own) == sum(one["gen"] for one in told)
        first = [row for row in rows["first_token"] if row["engine"] == engine]
        assert len(first) == sum(len(one["ttft"]) for one in told)


def test_requests_that_resume_have_a_row_of_their_own_without_counters(
    host: TapHost, sender: TapSender
) -> None:
    records = read_records(_PREEMPTION)
    steps = replay_steps(host, records, sender)["engine_step"]
    others = [row for row in steps if row["outlier"]]
    # By hand, from the recording: steps of (4 + 1), (1 + 1 + 1) and (3 + 1 + 1) outputs.
    assert sorted(row["itl_us"] for row in others) == [
        492_936, 1_150_924, 2_223_623, 2_249_784, 4_458_263,
    ]  # fmt: skip
    assert {row["outputs"] for row in others} == {1}
    assert {(row["running"], row["generation_tokens"], row["step_us"]) for row in others} == {
        (None, None, None)
    }
    assert sum(row["preempted"] or 0 for row in steps) == 5
    expected = sorted(round(gap * SECOND) for one in records for gap in one["iter"]["itl"])
    assert gaps_of(steps) == expected


def test_missing_values_are_null_and_zeros_stay(host: TapHost, sender: TapSender) -> None:
    host.send_step(
        sender,
        load_bytes=MISSING["q"],
        load_time_us=MISSING["I"],
        store_bytes=0,
        kv_usage_ratio=float("nan"),
        waiting=0,
        itl_us=MISSING["I"],
    )
    [row] = host.poll(host.steps)["engine_step"]
    missing = ("load_bytes", "load_time_us", "kv_usage_ratio", "itl_us", "store_time_us", "running")
    assert {name: row[name] for name in missing} == dict.fromkeys(missing)
    assert (row["store_bytes"], row["waiting"]) == (0, 0)


def test_a_refused_value_is_null_counted_and_told(host: TapHost, sender: TapSender) -> None:
    now = host.at()
    columns: Mapping[str, Column] = {
        "engine_mono_us": ("q", [now.mono_us] * 2),
        "outputs": ("i", [3, 4]),
        "itl_us": ("i", [-5, 700]),
        "kv_usage_ratio": ("f", [float("inf"), 0.5]),
    }
    host.deliver(sender.steps(columns, now.wall_us, now.mono_us))
    reading = host.read(host.steps)
    rows = reading.rows["engine_step"]
    assert isinstance(rows, pa.RecordBatch)
    assert rows.column("itl_us").to_pylist() == [None, 700]
    assert rows.column("kv_usage_ratio").to_pylist() == [None, 0.5]
    assert reading.rejects == 2
    assert "values refused (negative, or too large)" in reading.reason


def test_a_row_of_an_impossible_time_or_without_outputs_is_left_out(
    host: TapHost, sender: TapSender
) -> None:
    now = host.at()
    hour = 3_600 * SECOND
    columns: Mapping[str, Column] = {
        "engine_mono_us": ("q", [now.mono_us, now.mono_us - hour, 2**62, now.mono_us]),
        "outputs": ("I", [1, 2, 3, MISSING["I"]]),
    }
    host.deliver(sender.steps(columns, now.wall_us, now.mono_us))
    reading = host.read(host.steps)
    rows = reading.rows["engine_step"]
    assert isinstance(rows, pa.RecordBatch)
    assert rows.column("outputs").to_pylist() == [1]
    assert reading.rejects == 3
    assert "rows without outputs or time" in reading.reason


def test_columns_of_a_newer_tap_are_passed_over_and_those_of_an_older_one_lack(
    host: TapHost, sender: TapSender
) -> None:
    now = host.at()
    columns: Mapping[str, Column] = {
        "engine_mono_us": ("q", [now.mono_us]),
        "outputs": ("H", [7]),
        "colour": ("d", [1.5]),
    }
    host.deliver(sender.steps(columns, now.wall_us, now.mono_us))
    [row] = host.poll(host.steps)["engine_step"]
    assert (row["outputs"], row["outlier"], row["itl_us"]) == (7, None, None)
    assert row["engine"] == 11  # the only one behind that port


def test_the_batch_fits_the_table(host: TapHost, sender: TapSender) -> None:
    host.send_step(sender)
    host.send_step(sender, running=3)  # another layout: another group
    batch = host.read(host.steps).rows["engine_step"]
    assert isinstance(batch, pa.RecordBatch)
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema("engine_step"))
    assert batch.num_rows == 2


def test_first_tokens_carry_the_engine_and_impossible_ones_are_left_out(
    host: TapHost, sender: TapSender
) -> None:
    now = host.at()
    ttft = [(0, now.wall_us - 5_000, 80_000), (0, 17, 90_000)]
    columns: Mapping[str, Column] = {"engine_mono_us": ("q", [now.mono_us]), "outputs": ("I", [1])}
    host.deliver(sender.steps(columns, now.wall_us, now.mono_us, ttft))
    rows = host.poll(host.steps)["first_token"]
    assert rows == [{"wall_us": now.wall_us - 5_000, "engine": 11, "ttft_us": 80_000}]


def test_a_finished_request_is_a_row_of_level_step(host: TapHost, sender: TapSender) -> None:
    now = host.at()
    host.send_requests(
        sender,
        {
            "source": "stats",
            "id": "chatcmpl-x",
            "engine": 0,
            "finish": "length",
            "arrival_wall_us": now.wall_us - 2 * SECOND,
            "end_mono_us": now.mono_us - 100,
            "e2e_us": 2 * SECOND - 100,
            "decode_us": 1_800_000,
            "prompt_tokens": 8_193,
            "output_tokens": 101,
            "preemptions": 0,
        },
    )
    rows = host.poll(host.steps)
    [row] = rows["request"]
    assert row["wall_us"] == now.wall_us - 100
    assert (row["mono_us"], row["level"]) == (now.mono_us - 100, "step")
    assert row["arrival_wall_us"] == now.wall_us - 2 * SECOND
    assert (row["tpot_us"], row["context_class"]) == (18_000, "32k")
    assert (row["preemptions"], row["cached_tokens"], row["chunks"]) == (0, None, None)
    [name] = rows["request_name"]
    assert name["request"] == row["request"]
    assert "chatcmpl" not in str(name["name"])


def test_before_the_first_datagram_it_says_where_it_listens(host: TapHost) -> None:
    answer = host.silence(host.steps)
    assert answer.state is State.NOT_FOUND
    assert answer.reason == "no tap has sent anything to /run/tap.sock yet"
    assert answer.rest_us is not None


def test_an_idle_engine_is_no_trouble(host: TapHost, sender: TapSender) -> None:
    host.send_step(sender)
    host.poll(host.steps)
    host.clock.advance(3_600 * SECOND)
    reading = host.read(host.steps)
    assert reading.reason == ""
    assert not any(len(rows) for rows in reading.rows.values())


def test_garbage_is_counted_told_for_a_while_and_its_neighbours_stay(
    host: TapHost, sender: TapSender
) -> None:
    host.deliver(b"GET / HTTP/1.1\r\n\r\n")
    host.send_step(sender)
    host.deliver(encode(1, {"session": "x"}), pid=9)
    reading = host.read(host.steps)
    assert len(reading.rows["engine_step"]) == 1
    assert reading.rejects == 2
    assert "2 datagrams refused (the last from process 9: header: the header has no" in (
        reading.reason
    )
    host.clock.advance(9 * SECOND)
    assert "2 datagrams refused" in host.read(host.steps).reason
    host.clock.advance(2 * SECOND)
    assert host.read(host.steps).reason == ""


def test_lost_datagrams_and_records_that_the_tap_dropped_are_counted_once(
    host: TapHost, sender: TapSender
) -> None:
    host.send_step(sender)
    assert host.read(host.steps).dropped == 0
    for _ in range(3):
        sender.steps({}, 0, 0)  # made, and lost on the way
    sender.dropped = 40
    host.send_step(sender)
    host.send_gaps(sender, [1])
    reading = host.read(host.steps)
    assert reading.dropped == 43
    assert "3 datagrams never came; 40 records dropped by taps" in reading.reason
    assert host.read(host.gaps).dropped == 0


def test_what_was_dropped_before_we_were_there_is_not_ours_to_count(
    host: TapHost, sender: TapSender
) -> None:
    sender.dropped = 1_000
    for _ in range(5):
        sender.steps({}, 0, 0)
    host.send_step(sender)
    assert host.read(host.steps).dropped == 0


def test_a_tap_that_starts_anew_loses_nothing(host: TapHost) -> None:
    for session in ("a", "b"):
        again = TapSender(session=session)
        host.send_step(again)
        host.send_step(again)
    reading = host.read(host.steps)
    assert (reading.dropped, len(reading.rows["engine_step"])) == (0, 4)


def test_servers_of_one_engine_are_sessions_of_their_own(host: TapHost) -> None:
    """Two API servers: sequences count apart, the engine is the same."""
    first, second = (
        TapSender(session=name, facts={"port": 8000, "model": "tiny", "server": server})
        for server, name in enumerate(("s0", "s1"))
    )
    for sender, pid in ((first, 100), (second, 101), (second, 101), (first, 100)):
        host.send_step(sender, pid)
    reading = host.read(host.steps)
    rows = reading.rows["engine_step"]
    assert isinstance(rows, pa.RecordBatch)
    assert set(rows.column("engine").to_pylist()) == {11}
    assert (rows.num_rows, reading.dropped) == (4, 0)


def test_nobody_speaks_for_the_session_of_another_process(host: TapHost, sender: TapSender) -> None:
    host.send_step(sender)
    forged = TapSender(session=sender.session)
    for _ in range(100):
        forged.steps({}, 0, 0)
    host.send_step(forged, pid=666)
    host.send_step(sender)
    assert host.read(host.steps).dropped == 0


def test_a_step_of_the_wall_clock_moves_whole_readings(host: TapHost, sender: TapSender) -> None:
    host.send_step(sender)
    before = host.at()
    host.clock.advance(50_000)
    host.clock.wall_offset_us += 3_600 * SECOND  # set between sending and reading
    host.send_step(sender)
    now = host.at()
    first, second = host.poll(host.steps)["engine_step"]
    assert second["wall_us"] - first["wall_us"] == second["mono_us"] - first["mono_us"] == 50_000
    assert second["wall_us"] == now.wall_us
    assert first["mono_us"] == before.mono_us


def test_a_poll_without_ids_fails_and_says_what_it_cost(host: TapHost, sender: TapSender) -> None:
    source = EngineSteps(host.taps)
    host.fake.store.reserved["request"] = 2**32
    host.send_requests(sender, {"source": "stats", "id": "x", "engine": 0})
    with pytest.raises(Exception, match="request ids of this lake are used up"):
        source.read()
    assert source.read().dropped == 1  # type: ignore[union-attr]
