"""The TraceService over gRPC, by a real channel."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from collector.otlp_bounds import LONGEST_BODY, ByteBudget
from collector.otlp_grpc import GrpcListener
from collector.otlp_intake import Intake
from tests.collector.otlp_bodies import as_protobuf, request, span
from tests.collector.stand_ins import SECOND, ManualClock

_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class _Receiver:
    def __init__(self, token: str | None = None, bytes_per_second: int = 20_000_000) -> None:
        self.clock = ManualClock()
        self.intake = Intake(self.clock, ByteBudget(self.clock, bytes_per_second))
        self.listener = GrpcListener(self.intake, ("127.0.0.1", 0), token)
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{self.listener.port}",
            options=[("grpc.max_send_message_length", 100 * LONGEST_BODY)],
        )

    def send(
        self,
        body: bytes,
        compression: grpc.Compression | None = None,
        authorization: str | None = None,
    ) -> ExportTraceServiceResponse:
        call: grpc.UnaryUnaryMultiCallable[bytes, ExportTraceServiceResponse]
        call = self.channel.unary_unary(
            _EXPORT, response_deserializer=ExportTraceServiceResponse.FromString
        )
        shown = () if authorization is None else (("authorization", authorization),)
        return call(body, timeout=20, compression=compression, metadata=shown)

    def close(self) -> None:
        self.channel.close()
        self.listener.close()


@contextmanager
def _receiving(token: str | None = None, bytes_per_second: int = 20_000_000) -> Iterator[_Receiver]:
    made = _Receiver(token, bytes_per_second)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def receiver() -> Iterator[_Receiver]:
    with _receiving() as made:
        yield made


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "gzip"])
def test_a_request_is_taken(receiver: _Receiver, compression: grpc.Compression | None) -> None:
    answer = receiver.send(as_protobuf(request(span())), compression)
    assert answer == ExportTraceServiceResponse()
    (found,) = receiver.intake.drain().requests
    assert (found.name, found.columns["e2e_us"]) == ("cmpl-a-0", 1_750_000)


def test_partial_success_says_how_many_and_why(receiver: _Receiver) -> None:
    answer = receiver.send(as_protobuf(request(span(), span(endTimeUnixNano="0"))))
    assert answer.partial_success.rejected_spans == 1
    assert "without an end time" in answer.partial_success.error_message


def _refusal(receiver: _Receiver, body: bytes, **how: object) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as refused:
        receiver.send(body, **how)  # type: ignore[arg-type]
    return refused.value


def test_what_is_no_request_is_an_invalid_argument(receiver: _Receiver) -> None:
    error = _refusal(receiver, b"\xff\xff")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert receiver.intake.drain().rejects == 1


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "bomb"])
def test_a_body_that_is_too_long_once_unpacked_is_refused(
    receiver: _Receiver, compression: grpc.Compression | None
) -> None:
    error = _refusal(receiver, bytes(10 * LONGEST_BODY), compression=compression)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert receiver.intake.drain().rejects == 0


def test_too_much_at_once_is_told_when_to_come_again() -> None:
    with _receiving(bytes_per_second=100) as receiver:
        body = as_protobuf(request(span()))
        assert 350 < len(body) < 600
        receiver.send(body)
        error = _refusal(receiver, body)
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        told = error.trailing_metadata()
        details = [one.value for one in told if one.key == "grpc-status-details-bin"]
        info = RetryInfo()
        assert Status.FromString(details[0]).details[0].Unpack(info)
        assert 3 <= info.retry_delay.seconds <= 5
        receiver.clock.advance(5 * SECOND)
        receiver.send(body)


def test_a_token_is_wanted_where_there_is_one() -> None:
    with _receiving(token="right") as receiver:  # noqa: S106 - a test's token
        body = as_protobuf(request(span()))
        for shown in (None, "Bearer wrong"):
            error = _refusal(receiver, body, authorization=shown)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert receiver.intake.drain().requests == []
        receiver.send(body, authorization="Bearer right")
        assert len(receiver.intake.drain().requests) == 1


def test_a_taken_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="taken or cannot be had"):
            GrpcListener(Intake(ManualClock()), ("127.0.0.1", port), None)


def test_a_second_listener_on_a_port_is_an_error(receiver: _Receiver) -> None:
    with pytest.raises(OSError, match="taken or cannot be had"):
        GrpcListener(receiver.intake, ("127.0.0.1", receiver.listener.port), None)


def test_the_published_client_reaches_it(receiver: _Receiver) -> None:
    stub = TraceServiceStub(receiver.channel)  # type: ignore[no-untyped-call]
    message = ExportTraceServiceRequest.FromString(as_protobuf(request(span())))
    assert stub.Export(message, timeout=20) == ExportTraceServiceResponse()
    assert len(receiver.intake.drain().requests) == 1
