"""Source: finished requests from the spans that vLLM sends (``--otlp-traces-endpoint``).

Off unless a setting opens a port. Bodies arrive on threads of their own (`otlp_http`, `otlp_grpc`)
and wait in the intake; a poll turns them into rows of table request, level ``trace``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.known_engine import KnownEngine
from collector.otlp_engines import OriginBook
from collector.otlp_intake import Arrived, Intake
from collector.otlp_ports import wanted_ports
from collector.otlp_spans import TracedRequest
from collector.request_ids import RequestIds
from collector.source import Machine, NoData, Reading, Row, SourceError, State
from stallscope.settings import OtlpSettings
from stallscope.units import US_PER_SECOND

_INTERVAL_US = US_PER_SECOND // 2


class OtlpTraces:
    """Receives spans.

    Args:
        machine: Clock, host name and engine ids.
        settings: Which ports to open.
        token: Bearer token that senders must show, or None.
        request_ids: Numbers of requests.
        engines: Returns the engines whose pages are read.
    """

    name = "otlp_traces"
    tables = ("request", "request_name")
    interval_us = _INTERVAL_US
    deadline_us = 5 * US_PER_SECOND

    def __init__(
        self,
        machine: Machine,
        settings: OtlpSettings,
        *,
        token: str | None,
        request_ids: RequestIds,
        engines: Callable[[], Sequence[KnownEngine]],
    ) -> None:
        self._machine = machine
        self._token = token
        self._request_ids = request_ids
        self._origins = OriginBook(machine, engines)
        self._intake = Intake(machine.clock)
        self._ports = wanted_ports(settings)
        self._has_ended = False
        self._has_requests = False
        self._ignored = 0

    def read(self) -> Reading | NoData:
        """Return the requests that were told of since the last poll.

        Returns:
            NoData while nothing is enabled, installed or sent.

        Raises:
            SourceError: No port can be opened, or no ids can be had.
        """
        if not self._ports:
            return NoData(
                State.DISABLED, "otlp.http_enabled and otlp.grpc_enabled are off: no port is open"
            )
        if not self._has_ended:
            for port in self._ports:
                port.ensure(self._intake, self._token, self._machine.clock.now().mono_us)
            if not any(port.is_open for port in self._ports):
                return self._explain_closed()
        arrived = self._intake.drain()
        self._has_requests = self._has_requests or bool(arrived.requests)
        self._ignored += arrived.ignored
        if not self._has_requests and not arrived.rejects:
            return NoData(State.NOT_FOUND, self._explain_silence(), rest_us=0)
        rows = {
            "request": self._rows(arrived.requests),
            "request_name": self._request_ids.take_names(self._machine.clock.now().wall_us),
        }
        return Reading(rows, arrived.rejects, self._trouble(arrived))

    def stop_receiving(self) -> None:
        """Close the ports; spans that were taken wait for the last reading."""
        self._has_ended = True
        for port in self._ports:
            port.close()

    def close(self) -> None:
        """Close the ports."""
        self.stop_receiving()

    def _rows(self, requests: Sequence[TracedRequest]) -> list[Row]:
        numbers = self._request_ids.ids_of([request.name for request in requests])
        return [
            {
                **request.columns,
                "engine": self._origins.engine_of(request.origin),
                "request": number,
            }
            for request, number in zip(requests, numbers, strict=True)
        ]

    def _trouble(self, arrived: Arrived) -> str:
        refused = f"{arrived.rejects} refused, first: {arrived.why}" if arrived.rejects else ""
        return "; ".join(filter(None, (*(port.trouble for port in self._ports), refused)))

    def _explain_silence(self) -> str:
        ports = " and ".join(port.place for port in self._ports if port.is_open)
        if self._ignored:
            return f"{ports}: {self._ignored} spans came, none of them a request of vLLM's"
        return f"{ports}: no spans have come yet"

    def _explain_closed(self) -> NoData:
        trouble = "; ".join(port.trouble for port in self._ports)
        if all(port.is_missing for port in self._ports):
            return NoData(State.UNSUPPORTED, trouble)
        if any(port.is_ours() for port in self._ports):
            reason = "a collector that runs on this host receives the spans there"
            return NoData(State.NOT_APPLICABLE, f"{trouble}: {reason}")
        raise SourceError(trouble)
