"""Which engine a traced request belongs to: its span does not carry our id."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.known_engine import KnownEngine
from collector.otlp_spans import Origin
from collector.source import Machine

ENDPOINT = "otlp"
"""Endpoint of an engine that is known by its spans only, a named one's service behind a slash."""

_UNNAMED = "unknown_service"  # what an SDK calls a service without OTEL_SERVICE_NAME
_MOST_SERVICES = 64  # engine ids are 16 bits for the life of a lake, and names come from outside


class OriginBook:
    """Engine ids for those who send spans.

    Args:
        machine: Host name and engine ids.
        engines: Returns the engines whose pages are read.
    """

    def __init__(self, machine: Machine, engines: Callable[[], Sequence[KnownEngine]]) -> None:
        self._machine = machine
        self._engines = engines
        self._services: dict[tuple[str, str], None] = {}

    def engine_of(self, origin: Origin) -> int:
        """Return the engine's id.

        It is the engine that the sender is named after, else the only one that serves the model,
        else the only one there is; otherwise one that is known by its spans only.

        Raises:
            SourceError: The ids of this lake are used up.
        """
        engines = self._engines()
        named = [one for one in engines if one.name in {origin.service, origin.instance}]
        if len(named) == 1:
            return named[0].engine
        serving = [one for one in engines if not origin.model or one.model in {"", origin.model}]
        if len(serving) == 1:
            return serving[0].engine
        return self._own(origin)

    def _own(self, origin: Origin) -> int:
        named = not origin.service.startswith(_UNNAMED)
        service, model = self._admit((origin.service if named else "", origin.model))
        return self._machine.names.engine(
            {
                "host": self._machine.host,
                "endpoint": f"{ENDPOINT}/{service}" if service else ENDPOINT,
                "rank": "",
                "model": model,
                "name": service or ENDPOINT,
                "kind": "vllm",
                "config_hash": None,
                "version": None,
            }
        )

    def _admit(self, service: tuple[str, str]) -> tuple[str, str]:
        """Return service and model as they are, or without names when there are too many."""
        if service not in self._services and len(self._services) >= _MOST_SERVICES:
            return ("", "")
        self._services[service] = None
        return service
