"""OTLP over HTTP: POST /v1/traces, in protobuf or JSON, answered in the encoding of the request.

OpenTelemetry protocol specification 1.x, "OTLP/HTTP": a body that is taken is answered by 200 and
an ExportTraceServiceResponse, one that is refused by a google.rpc.Status.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.edges.freed_memory import return_large_blocks
from collector.otlp_bounds import LONGEST_BODY, BodyError, BusyError
from collector.otlp_intake import Intake, Read, Taken
from collector.otlp_json import read_json
from collector.otlp_protobuf import read_protobuf
from stallscope.exposition.access import Access
from stallscope.exposition.reply import Reply, Sent, Upload
from stallscope.exposition.server import Limits, Listener

PATH = "/v1/traces"
ALIVE = "/healthz"
GREETING = "stallscope takes spans here\n"

_GZIP = zlib.MAX_WBITS | 16
# Fewer at a time than elsewhere: each may hold a body.
_LIMITS = Limits(at_once=8)
# Canonical codes, google/rpc/code.proto.
_INVALID_ARGUMENT = 3
_UNIMPLEMENTED = 12
_UNAVAILABLE = 14


@dataclass(frozen=True, slots=True)
class _Encoding:
    """One encoding of requests and answers.

    Attributes:
        read: Reads the spans of a body.
        answer: Returns the ExportTraceServiceResponse.
        refusal: Returns the google.rpc.Status of (code, message).
    """

    read: Read
    answer: Callable[[Taken], bytes]
    refusal: Callable[[int, str], bytes]


def listen(intake: Intake, address: tuple[str, int], token: str | None) -> Listener:
    """Listen for spans.

    Args:
        intake: Takes them.
        address: Host and TCP port.
        token: Bearer token that senders must show, or None.

    Raises:
        OSError: The address cannot be bound.
    """
    return_large_blocks()
    upload = Upload(Traces(intake).answer, tuple(_ENCODINGS), LONGEST_BODY)
    return Listener(address, {PATH: upload, ALIVE: _tell_alive}, Access(token), _LIMITS)


def _tell_alive(accept: str) -> Reply:
    """Tell that it is us: another collector on this host looks for that."""
    del accept
    return Reply(HTTPStatus.OK, GREETING.encode())


class Traces:
    """Answers what is sent to /v1/traces.

    Args:
        intake: Takes the spans.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def answer(self, sent: Sent) -> Reply:
        """Take a body; refusals say whether sending it again may help."""
        encoding = _ENCODINGS[sent.content_type]

        def refuse(status: HTTPStatus, code: int, message: str, wait_s: int | None = None) -> Reply:
            body = encoding.refusal(code, message)
            return Reply(status, body, sent.content_type, retry_after_s=wait_s)

        try:
            taken = self._take(sent, encoding.read)
        except BusyError as error:
            wait_s = error.retry_after_s
            return refuse(HTTPStatus.TOO_MANY_REQUESTS, _UNAVAILABLE, str(error), wait_s)
        except BodyError as error:
            self._intake.refuse(str(error))
            return refuse(HTTPStatus.BAD_REQUEST, _INVALID_ARGUMENT, str(error))
        except _EncodingError as error:
            return refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _UNIMPLEMENTED, str(error))
        return Reply(HTTPStatus.OK, encoding.answer(taken), sent.content_type)

    def _take(self, sent: Sent, read: Read) -> Taken:
        self._intake.admit(len(sent.body))
        body = _unpack(sent)
        self._intake.charge(len(body) - len(sent.body))
        return self._intake.take(read, body)


class _EncodingError(ValueError):
    """The Content-Encoding is not known."""


def _unpack(sent: Sent) -> bytes:
    """Return a body without its Content-Encoding.

    Raises:
        BodyError: It is damaged, or longer than a body may be once it is unpacked.
        _EncodingError: The encoding is not known.
    """
    if sent.content_encoding in {"", "identity"}:
        return sent.body
    if sent.content_encoding != "gzip":
        raise _EncodingError("the Content-Encoding must be gzip or identity")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        body = unpacker.decompress(sent.body, LONGEST_BODY + 1)
    except zlib.error as error:
        raise BodyError("no gzip") from error
    if len(body) > LONGEST_BODY:
        raise BodyError(f"more than {LONGEST_BODY} bytes when it is unpacked")
    if not unpacker.eof or unpacker.unused_data:
        raise BodyError("no single whole gzip member")
    return body


def response_of(taken: Taken) -> ExportTraceServiceResponse:
    """Return the answer to a body that was taken; without a word when all of it was."""
    response = ExportTraceServiceResponse()
    if taken.message:
        response.partial_success.rejected_spans = taken.rejected
        response.partial_success.error_message = taken.message
    return response


def _json_answer(taken: Taken) -> bytes:
    partial = {"rejectedSpans": str(taken.rejected), "errorMessage": taken.message}
    return json.dumps({"partialSuccess": partial} if taken.message else {}).encode()


_ENCODINGS: Mapping[str, _Encoding] = {
    "application/x-protobuf": _Encoding(
        read=read_protobuf,
        answer=lambda taken: bytes(response_of(taken).SerializeToString()),
        refusal=lambda code, message: bytes(
            Status(code=code, message=message).SerializeToString(),
        ),
    ),
    "application/json": _Encoding(
        read=read_json,
        answer=_json_answer,
        refusal=lambda code, message: json.dumps({"code": code, "message": message}).encode(),
    ),
}
"""Media types that OTLP/HTTP knows."""
