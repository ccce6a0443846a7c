"""POST /v1/traces: both encodings, what is refused and how that is said."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.otlp_bounds import LONGEST_BODY, ByteBudget
from collector.otlp_http import listen
from collector.otlp_intake import Intake
from stallscope.exposition.server import Listener
from tests.collector.otlp_bodies import as_json, as_protobuf, double, request, span
from tests.collector.stand_ins import SECOND, ManualClock

_JSON = "application/json"
_PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True)
class _Answer:
    status: int
    kind: str
    retry_after: str | None
    body: bytes


@dataclass
class _Receiver:
    clock: ManualClock
    intake: Intake
    listener: Listener

    def post(
        self,
        body: bytes,
        kind: str = _PROTOBUF,
        path: str = "/v1/traces",
        **headers: str,
    ) -> _Answer:
        connection = HTTPConnection("127.0.0.1", self.listener.port, timeout=20)
        sent = {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}
        try:
            connection.request("POST", path, body=body, headers=sent)
            answer = connection.getresponse()
            told = answer.headers
            return _Answer(
                answer.status, str(told["Content-Type"]), told["Retry-After"], answer.read()
            )
        finally:
            connection.close()


def _receiver(token: str | None = None, bytes_per_second: int = 20_000_000) -> _Receiver:
    clock = ManualClock()
    intake = Intake(clock, ByteBudget(clock, bytes_per_second))
    return _Receiver(clock, intake, listen(intake, ("127.0.0.1", 0), token))


@pytest.fixture(scope="module")
def shared() -> Iterator[_Receiver]:
    made = _receiver()
    yield made
    made.listener.close()


@pytest.fixture
def receiver(shared: _Receiver) -> _Receiver:
    shared.clock.advance(SECOND)
    shared.intake.drain()
    return shared


def test_protobuf_is_taken_and_answered_without_a_word(receiver: _Receiver) -> None:
    answer = receiver.post(as_protobuf(request(span())))
    assert (answer.status, answer.kind, answer.body) == (200, _PROTOBUF, b"")
    (found,) = receiver.intake.drain().requests
    assert found.columns["ttft_us"] == 250_000


def test_json_is_taken_and_answered_without_a_word(receiver: _Receiver) -> None:
    answer = receiver.post(as_json(request(span())), f"{_JSON}; charset=utf-8")
    assert (answer.status, answer.kind, answer.body) == (200, _JSON, b"{}")
    assert len(receiver.intake.drain().requests) == 1


def test_gzip_is_unpacked(receiver: _Receiver) -> None:
    body = gzip.compress(as_protobuf(request(span())))
    assert receiver.post(body, Content_Encoding="GZip").status == 200
    assert len(receiver.intake.drain().requests) == 1


def test_partial_success_says_how_many_and_why(receiver: _Receiver) -> None:
    document = request(span(), span(endTimeUnixNano="0"))
    answer = receiver.post(as_protobuf(document))
    told = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, told.rejected_spans) == (200, 1)
    assert told.error_message == "1 spans refused, first: a span without an end time"
    answer = receiver.post(as_json(document), _JSON)
    assert json.loads(answer.body) == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": told.error_message}
    }


def test_a_value_that_is_left_out_is_a_warning(receiver: _Receiver) -> None:
    body = as_protobuf(request(span([double("gen_ai.latency.e2e", -1.0)])))
    told = ExportTraceServiceResponse.FromString(receiver.post(body).body).partial_success
    assert told.rejected_spans == 0
    assert told.error_message == "1 values left out, first: gen_ai.latency.e2e = -1"


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (b"\xff\xff\xff", {}, "no ExportTraceServiceRequest in protobuf"),
        (b"no gzip", {"Content_Encoding": "gzip"}, "no gzip"),
        (gzip.compress(b"")[:-4], {"Content_Encoding": "gzip"}, "no single whole gzip member"),
        (gzip.compress(b"") * 2, {"Content_Encoding": "gzip"}, "no single whole gzip member"),
    ],
    ids=["bytes", "no gzip", "cut", "two"],
)
def test_a_body_that_cannot_be_read_is_a_bad_request(
    receiver: _Receiver, body: bytes, headers: Mapping[str, str], message: str
) -> None:
    answer = receiver.post(body, **headers)
    status = Status.FromString(answer.body)
    assert (answer.status, answer.kind, answer.retry_after) == (400, _PROTOBUF, None)
    assert (status.code, status.message) == (3, message)
    arrived = receiver.intake.drain()
    assert (arrived.rejects, arrived.why) == (1, message)


def test_a_refusal_of_json_is_in_json(receiver: _Receiver) -> None:
    answer = receiver.post(b"[]", _JSON)
    assert (answer.status, answer.kind) == (400, _JSON)
    assert json.loads(answer.body)["code"] == 3


def test_a_bomb_is_refused_and_takes_no_room(receiver: _Receiver) -> None:
    bomb = gzip.compress(bytes(LONGEST_BODY + 1))
    assert len(bomb) < 5_000
    answer = receiver.post(bomb, Content_Encoding="gzip")
    assert answer.status == 400
    assert Status.FromString(answer.body).message == "more than 4194304 bytes when it is unpacked"
    bigger = gzip.compress(bytes(20 * LONGEST_BODY))
    assert receiver.post(bigger, Content_Encoding="gzip").status == 400


def test_a_body_of_the_largest_size_passes_and_one_byte_more_does_not(
    receiver: _Receiver,
) -> None:
    body = as_json(request(span())).ljust(LONGEST_BODY)
    assert receiver.post(body, _JSON).status == 200
    # Only announced: who sends it all the same may see the connection end instead of the answer.
    longer = receiver.post(b"", _JSON, Content_Length=str(LONGEST_BODY + 1))
    assert longer.status == 413


def test_an_unknown_encoding_is_not_supported(receiver: _Receiver) -> None:
    answer = receiver.post(b"", Content_Encoding="br")
    assert answer.status == 415
    assert "gzip or identity" in Status.FromString(answer.body).message


@pytest.mark.parametrize("kind", ["text/plain", "application/grpc", "multipart/form-data", ""])
def test_another_content_type_is_not_supported(receiver: _Receiver, kind: str) -> None:
    answer = receiver.post(as_json(request(span())), kind)
    assert answer.status == 415
    assert receiver.intake.drain().requests == []


def test_too_much_at_once_is_told_when_to_come_again() -> None:
    receiver = _receiver(bytes_per_second=1_000)
    body = as_protobuf(request(span())).ljust(3_000, b"\x00")  # refused, and paid for all the same
    try:
        assert receiver.post(body).status == 400
        answer = receiver.post(as_protobuf(request(span())))
        assert (answer.status, answer.retry_after) == (429, "3")
        status = Status.FromString(answer.body)
        assert (status.code, status.message) == (14, "too much at once: send it again in 3 s")
        receiver.clock.advance(3 * SECOND)
        assert receiver.post(as_protobuf(request(span()))).status == 200
    finally:
        receiver.listener.close()


def test_an_unpacked_body_counts_as_what_it_is() -> None:
    receiver = _receiver(bytes_per_second=1_000)
    try:
        body = gzip.compress(as_json(request(span())).ljust(100_000))
        assert len(body) < 1_000
        assert receiver.post(body, _JSON, Content_Encoding="gzip").status == 200
        assert receiver.post(body, _JSON, Content_Encoding="gzip").status == 429
    finally:
        receiver.listener.close()


def test_host_and_origin_are_checked_as_elsewhere(receiver: _Receiver) -> None:
    body = as_json(request(span()))
    assert receiver.post(body, _JSON, Host="evil.example").status == 403
    assert receiver.post(body, _JSON, Origin="http://evil.example").status == 403
    assert receiver.post(body, _JSON, path="/v1/metrics").status == 404
    assert receiver.intake.drain().requests == []


def test_a_token_is_wanted_where_there_is_one() -> None:
    receiver = _receiver(token="right")  # noqa: S106 - a test's token
    body = as_protobuf(request(span()))
    try:
        assert receiver.post(body).status == 401
        assert receiver.post(body, Authorization="Bearer wrong").status == 401
        assert receiver.post(body, Authorization="Bearer right", Host="gpu-1:4318").status == 200
    finally:
        receiver.listener.close()


def test_many_senders_lose_nothing(receiver: _Receiver) -> None:
    body = as_protobuf(request(span(), span()))
    statuses: list[int] = []

    def send() -> None:
        statuses.extend(receiver.post(body).status for _ in range(25))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 100
    assert len(receiver.intake.drain().requests) == 200
