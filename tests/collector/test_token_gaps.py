from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from collector.source import Reading, State
from collector.token_gaps import TokenGaps
from lab.synthetic.tap_datagrams import MISSING, Column, TapSender
from stallscope.schema import arrow_schema
from tests.collector.stand_ins import SECOND
from tests.collector.tap_replay import (
    read_exchanges,
    read_records,
    replay_chunks,
    replay_steps,
)
from tests.collector.tap_stand_ins import TapHost, known_engine
from tests.conftest import REPO

_RUN = REPO / "tests/captures/taps/vllm-0.32__cpu__24-requests"


@pytest.fixture
def host(tmp_path: Path) -> TapHost:
    return TapHost(tmp_path)


@pytest.fixture
def sender() -> TapSender:
    return TapSender()


def test_a_recorded_run_has_a_row_for_every_chunk(host: TapHost, sender: TapSender) -> None:
    exchanges = read_exchanges(_RUN / "chunks.jsonl")
    rows = replay_chunks(host, exchanges, sender)
    gaps = rows["token_gap"]
    assert len(gaps) == 24 * 66
    assert sum(row["itl_us"] is None for row in gaps) == 24
    longest = max(after - before for one in exchanges for before, after in pairwise(one["chunks"]))
    assert max(row["itl_us"] or 0 for row in gaps) == round(longest * SECOND)
    requests = {row["request"]: row for row in rows["request"]}
    assert len(requests) == 24
    assert {row["level"] for row in requests.values()} == {"gap"}
    for request in requests.values():
        own = [row for row in gaps if row["request"] == request["request"]]
        assert [row["chunk_index"] for row in own] == list(range(66))
        assert sum(row["itl_us"] or 0 for row in own) == request["e2e_us"] - request["ttft_us"]
        assert own[-1]["wall_us"] == request["wall_us"]


def test_both_taps_give_one_request_one_id(host: TapHost, sender: TapSender) -> None:
    chunks = replay_chunks(host, read_exchanges(_RUN / "chunks.jsonl"), sender)
    steps = replay_steps(host, read_records(_RUN / "steps.jsonl"), sender)
    by_gap = {row["request"]: row for row in chunks["request"]}
    by_step = {row["request"]: row for row in steps["request"]}
    assert by_gap.keys() == by_step.keys()
    assert len(by_gap) == 24
    for request, step in by_step.items():
        # the server's span of a request contains the engine's
        assert by_gap[request]["e2e_us"] >= step["inference_us"]
    assert steps["request_name"] == []
    assert host.noted["cmpl-probe-0"] in by_gap


def test_ids_are_stored_as_hashes_unless_wanted(tmp_path: Path) -> None:
    names = []
    for store in (False, True):
        host = TapHost(tmp_path / str(store), store_request_ids=store)
        told = {"source": "asgi", "number": 5, "id": "cmpl-x"}
        host.send_requests(TapSender(), told)
        [row] = host.poll(host.gaps)["request_name"]
        names.append(row["name"])
    assert names == [hashlib.blake2b(b"cmpl-x", digest_size=16).hexdigest(), "cmpl-x"]


def test_one_tap_of_many_requests_keeps_them_apart(host: TapHost, sender: TapSender) -> None:
    host.send_gaps(sender, [0, 1, 2])
    host.send_gaps(sender, [2, 0, 1], index=1)
    rows = host.poll(host.gaps)["token_gap"]
    assert len({row["request"] for row in rows}) == 3
    of_number = {row["itl_us"]: row["request"] for row in rows[:3]}  # the gap tells the number
    assert [of_number[row["itl_us"]] for row in rows[3:]] == [row["request"] for row in rows[3:]]


def test_equal_numbers_of_two_taps_are_two_requests(host: TapHost) -> None:
    host.send_gaps(TapSender(session="a"), [0], pid=1)
    host.send_gaps(TapSender(session="b"), [0], pid=2)
    rows = host.poll(host.gaps)["token_gap"]
    assert len({row["request"] for row in rows}) == 2


def test_chunks_that_come_before_their_announcement_have_the_same_request(
    host: TapHost, sender: TapSender
) -> None:
    host.send_gaps(sender, [3])
    [early] = host.poll(host.gaps)["token_gap"]
    host.send_requests(sender, {"source": "asgi", "number": 3, "id": "cmpl-late"})
    host.send_gaps(sender, [3], index=1)
    rows = host.poll(host.gaps)
    [late], [name] = rows["token_gap"], rows["request_name"]
    assert early["request"] == late["request"] == name["request"]


def test_the_number_of_a_chunk_needs_no_short_counter(host: TapHost, sender: TapSender) -> None:
    host.send_gaps(sender, [70_000], index=70_000)
    [row] = host.poll(host.gaps)["token_gap"]
    assert row["chunk_index"] == 70_000


def test_several_tokens_in_a_chunk_are_kept_and_unknown_is_null(
    host: TapHost, sender: TapSender
) -> None:
    now = host.at()
    columns: Mapping[str, Column] = {
        "request": ("I", [0, 0, 0]),
        "chunk_index": ("I", [0, 1, 2]),
        "mono_us": ("q", [now.mono_us - 20, now.mono_us - 10, now.mono_us]),
        "itl_us": ("I", [MISSING["I"], 10, 0]),
        "tokens": ("B", [MISSING["B"], 4, 0]),
    }
    host.deliver(sender.gaps(columns, now.wall_us, now.mono_us))
    rows = host.poll(host.gaps)["token_gap"]
    assert [row["tokens_in_output"] for row in rows] == [None, 4, 0]
    assert [row["itl_us"] for row in rows] == [None, 10, 0]


def test_a_row_without_request_or_of_an_impossible_time_is_left_out(
    host: TapHost, sender: TapSender
) -> None:
    now = host.at()
    columns: Mapping[str, Column] = {
        "request": ("i", [-1, 2, 3]),
        "chunk_index": ("I", [0, 1, 2]),
        "mono_us": ("q", [now.mono_us, now.mono_us + 60 * SECOND, now.mono_us]),
    }
    host.deliver(sender.gaps(columns, now.wall_us, now.mono_us))
    reading = host.read(host.gaps)
    rows = reading.rows["token_gap"]
    assert isinstance(rows, pa.RecordBatch)
    assert rows.column("chunk_index").to_pylist() == [2]
    assert reading.rejects == 2


def test_the_batch_fits_the_table(host: TapHost, sender: TapSender) -> None:
    for index in range(3):
        host.send_gaps(sender, list(range(50)), index=index)
    batch = host.read(host.gaps).rows["token_gap"]
    assert isinstance(batch, pa.RecordBatch)
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema("token_gap"))
    assert batch.num_rows == 150


def test_with_several_ranks_behind_a_server_chunks_have_none_and_requests_their_own(
    host: TapHost, sender: TapSender
) -> None:
    host.engines[:] = [known_engine(21, rank="0"), known_engine(22, rank="1")]
    host.send_gaps(sender, [0])
    host.poll(host.gaps)
    host.clock.advance(6 * SECOND)  # so long it might still turn out
    host.send_requests(
        sender,
        {"source": "stats", "id": "cmpl-y-0", "engine": 1},
        {"source": "asgi", "number": 0, "id": "cmpl-y", "finish": "stop"},
    )
    rows = host.poll(host.gaps)
    [gap] = rows["token_gap"]
    facts = host.fake.store.stored["engine"][0]
    assert (gap["engine"], facts["rank"]) == (facts["engine"], "")
    assert facts["endpoint"] == "http://127.0.0.1:8000/metrics"
    assert [row["engine"] for row in rows["request"]] == [22]


def test_a_client_that_leaves_is_an_abort(host: TapHost, sender: TapSender) -> None:
    now = host.at()
    told = {"source": "asgi", "number": 1, "id": "x", "aborted": True}
    host.send_requests(sender, {**told, "finish": None, "end_mono_us": now.mono_us, "status": 200})
    [row] = host.poll(host.gaps)["request"]
    assert (row["finish"], row["status"]) == ("abort", 200)


def test_words_of_the_http_api_become_those_of_the_engine(host: TapHost, sender: TapSender) -> None:
    for number, finish in enumerate(("tool_calls", "length", "something new")):
        host.send_requests(sender, {"source": "asgi", "number": number, "finish": finish})
    rows = host.poll(host.gaps)["request"]
    assert [row["finish"] for row in rows] == ["stop", "length", None]


def test_a_flood_costs_the_newest_rows_and_is_told(host: TapHost, sender: TapSender) -> None:
    numbers = list(range(1_000))
    sent = 0
    for _ in range(800):  # some 20 MB, the inbox has 16
        host.send_gaps(sender, numbers)
        sent += 1_000
    kept = dropped = 0
    reasons = []
    for _ in range(60):
        reading = host.read(host.gaps)
        kept += len(reading.rows["token_gap"])
        dropped += reading.dropped
        reasons.append(reading.reason)
    assert 0 < dropped < sent
    assert kept + dropped == sent
    assert f"{dropped} rows thrown away here, the inbox was full" in reasons[0]
    host.send_gaps(sender, [1])  # the gap in the sequence is that same loss
    assert host.read(host.gaps).dropped == 0


def test_before_the_first_datagram_it_says_where_it_listens(host: TapHost) -> None:
    assert host.silence(host.gaps).state is State.NOT_FOUND


def test_rows_wait_for_their_engine_and_no_longer_than_five_seconds(
    host: TapHost, sender: TapSender
) -> None:
    host.engines.clear()
    host.send_gaps(sender, [0, 1])
    assert host.poll(host.gaps)["token_gap"] == []
    host.clock.advance(4 * SECOND)
    assert host.poll(host.gaps)["token_gap"] == []
    host.clock.advance(SECOND)
    rows = host.poll(host.gaps)["token_gap"]
    assert len(rows) == 2
    [facts] = host.fake.store.stored["engine"]
    assert {row["engine"] for row in rows} == {facts["engine"]}
    assert (facts["endpoint"], facts["kind"], facts["model"], facts["rank"]) == (
        "127.0.0.1:8000",
        "vllm",
        "tiny",
        "",
    )


def test_rows_that_wait_are_bounded(host: TapHost, sender: TapSender) -> None:
    host.engines.clear()
    for _ in range(1_000):
        host.send_gaps(sender, list(range(1_000)))
        reading = host.read(host.gaps)
        assert len(reading.rows["token_gap"]) == 0
        if reading.dropped:
            break
    else:
        pytest.fail("some 23 MB are held")
    assert "their engine had no id" in reading.reason


def test_closing_one_source_leaves_the_socket_to_the_other(tmp_path: Path) -> None:
    host = TapHost(tmp_path)
    other = TokenGaps(host.taps)
    host.send_gaps(TapSender(), [1])
    host.gaps.close()
    assert isinstance(other.read(), Reading)
