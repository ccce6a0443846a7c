"""Both taps behind one switch, so that one engine can be watched with them and without.

``--middleware switched_tap.SwitchedTap`` in place of the tap's own, this folder on PYTHONPATH.
Off, a request goes to the app as if no tap were there, and a step is not recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stallscope_vllm import TokenTap
from stallscope_vllm.stat_logger import StallscopeStatLogger

PATH = "/stallscope-lab/taps/"
"""POST to this path with ``on`` or ``off`` behind it throws the switch, and is not found."""

App = Any
Logger = Any
Message = Any
Scope = Any
Value = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Switch:
    is_on = True


_record = StallscopeStatLogger.record


def _record_if_on(self: Logger, *arguments: Value, **named: Value) -> None:
    if _Switch.is_on:
        _record(self, *arguments, **named)


StallscopeStatLogger.record = _record_if_on  # type: ignore[method-assign] # that is the switch


class SwitchedTap:
    """The middleware tap, or nothing.

    Args:
        app: The app inside.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._tap = TokenTap(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app, with the tap around it when that is switched on."""
        path = scope.get("path", "")
        is_thrown = path.startswith(PATH)
        if is_thrown:
            _Switch.is_on = path == PATH + "on"
        if _Switch.is_on and not is_thrown:
            await self._tap(scope, receive, send)
        else:
            await self._app(scope, receive, send)
