"""OTLP over gRPC: the TraceService, as vLLM speaks it unless it is told otherwise.

Bodies go undecoded through the same intake as those over HTTP. Imported only when it is enabled:
grpcio takes 11 MB and threads of its own.
"""

from __future__ import annotations

import hmac
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.edges.freed_memory import return_large_blocks
from collector.otlp_bounds import LONGEST_BODY, BodyError, BusyError
from collector.otlp_http import response_of
from collector.otlp_intake import Intake
from collector.otlp_protobuf import read_protobuf

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceResponse,
    )

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
_THREADS = 2
_AT_ONCE = 8
_STOP_S = 0.5
_OPTIONS = (
    ("grpc.max_receive_message_length", LONGEST_BODY),
    ("grpc.so_reuseport", 0),  # with it a second listener on the port is no error
)


class GrpcListener:
    """A running TraceService.

    Args:
        intake: Takes the spans.
        address: Host and port; port 0 takes a free one.
        token: Bearer token that senders must show, or None.

    Raises:
        OSError: The address cannot be bound.
    """

    def __init__(self, intake: Intake, address: tuple[str, int], token: str | None) -> None:
        return_large_blocks()
        self._intake = intake
        self._token = token
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="otlp-grpc"),
            options=_OPTIONS,
            maximum_concurrent_rpcs=_AT_ONCE,
        )
        export: grpc.RpcMethodHandler[bytes, ExportTraceServiceResponse]
        export = grpc.unary_unary_rpc_method_handler(
            self._export,
            response_serializer=lambda response: bytes(response.SerializeToString()),
        )
        service = grpc.method_handlers_generic_handler(_SERVICE, {"Export": export})
        self._server.add_generic_rpc_handlers((service,))
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        try:
            self.port = self._server.add_insecure_port(f"{host}:{address[1]}")
        except RuntimeError as error:  # grpcio does not tell which
            raise OSError(None, "it is taken or cannot be had") from error
        self._server.start()

    def close(self) -> None:
        """Stop listening; exports in progress have half a second."""
        self._server.stop(_STOP_S).wait(2 * _STOP_S)

    def _export(self, body: bytes, context: grpc.ServicerContext) -> ExportTraceServiceResponse:
        self._check_token(context)
        try:
            self._intake.admit(len(body))
            return response_of(self._intake.take(read_protobuf, body))
        except BusyError as error:
            _tell_when(context, error)
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except BodyError as error:
            self._intake.refuse(str(error))
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def _check_token(self, context: grpc.ServicerContext) -> None:
        if self._token is None:
            return
        given = dict(context.invocation_metadata()).get("authorization", "")
        shown = given if isinstance(given, bytes) else given.encode()
        if not hmac.compare_digest(shown, f"Bearer {self._token}".encode()):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed")


def _tell_when(context: grpc.ServicerContext, error: BusyError) -> None:
    """Add RetryInfo, by which an exporter knows that and when to send it again (OTLP/gRPC)."""
    info = RetryInfo()
    info.retry_delay.seconds = error.retry_after_s
    detail = AnyMessage()
    detail.Pack(info)
    status = Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message=str(error), details=[detail])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
