"""The ports for spans, opened only where settings want them.

What listens is imported only then: no other collector has to hold the classes of OTLP, or gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from collector.edges.http_scrape import ScrapeError, fetch
from collector.otlp_intake import Intake
from stallscope.settings import OtlpSettings
from stallscope.units import US_PER_SECOND

_OPEN_AGAIN_US = 10 * US_PER_SECOND
_PATIENCE_US = US_PER_SECOND // 2


class Listening(Protocol):
    """A port that is open."""

    def close(self) -> None:
        """Close it."""


Open = Callable[[Intake, tuple[str, int], str | None], Listening]
"""Opens a port for spans: intake, address, token. Raises OSError or ImportError."""


class Port:
    """One port: opened when it can be, tried again when it cannot.

    Args:
        name: Its settings begin so: ``otlp.http`` or ``otlp.grpc``.
        address: Host and port.
        open_port: Opens it.
        extra: What has to be installed for it.

    Attributes:
        is_open: Whether it could be opened.
        is_missing: Whether what it needs is not installed.
        trouble: Why it is not open, and what to look at; empty when all is well.
    """

    def __init__(self, name: str, address: tuple[str, int], open_port: Open, extra: str) -> None:
        self._name = name
        self._address = address
        self._open = open_port
        self._extra = extra
        self._next_us = 0
        self._listening: Listening | None = None
        self.is_missing = False
        self.trouble = ""

    @property
    def is_open(self) -> bool:
        """Whether spans can be sent there."""
        return self._listening is not None

    @property
    def place(self) -> str:
        """Host and port, as an address has them."""
        host, port = self._address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def ensure(self, intake: Intake, token: str | None, now_us: int) -> None:
        """Open the port, unless it is open or was tried in the last ten seconds."""
        if self.is_open or now_us < self._next_us:
            return
        self._next_us = now_us + _OPEN_AGAIN_US
        try:
            self._listening = self._open(intake, self._address, token)
        except OSError as error:
            why = error.strerror or error
            self.trouble = f"{self.place} cannot be listened on ({why}): see {self._name}_port"
        except ImportError as error:
            self.is_missing = True
            self.trouble = f"{self._name}_enabled needs stallscope[{self._extra}]: {error}"
        else:
            self.is_missing, self.trouble = False, ""

    def is_ours(self) -> bool:
        """Return whether another collector listens there: `doctor` runs beside one."""
        try:
            page = fetch(f"http://{self.place}/healthz", _PATIENCE_US)
        except ScrapeError:
            return False
        return page.body.startswith(b"stallscope")

    def close(self) -> None:
        """Close the port."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None


def wanted_ports(settings: OtlpSettings) -> tuple[Port, ...]:
    """Return the ports that settings want, none of them open yet."""
    host = settings.listen_address
    ports = []
    if settings.http_enabled:
        ports.append(Port("otlp.http", (host, settings.http_port), _open_http, "otlp"))
    if settings.grpc_enabled:
        ports.append(Port("otlp.grpc", (host, settings.grpc_port), _open_grpc, "otlp-grpc"))
    return tuple(ports)


def _open_http(intake: Intake, address: tuple[str, int], token: str | None) -> Listening:
    from collector.otlp_http import listen  # noqa: PLC0415 - only a collector that wants it pays

    return listen(intake, address, token)


def _open_grpc(intake: Intake, address: tuple[str, int], token: str | None) -> Listening:
    from collector.otlp_grpc import GrpcListener  # noqa: PLC0415 - as above

    return GrpcListener(intake, address, token)
