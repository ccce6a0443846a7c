"""What the collector answers over HTTP: /metrics, /healthz, /readyz and POST /gpu."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus

from collector.gpu_orders import GpuOrders
from stallscope.clock import Clock
from stallscope.exposition.access import Access
from stallscope.exposition.page import Page, render
from stallscope.exposition.reply import Post, Reply, Route
from stallscope.exposition.server import Listener
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_ALIVE_US = 10 * US_PER_SECOND
_ASK_AGAIN_US = US_PER_SECOND

Check = Callable[[], str]
"""Returns why the lake is not ready to be read, or an empty string when it is."""


class Heartbeat:
    """Whether the collector's main loop still turns. A slow disk or engine does not stop it.

    Args:
        clock: Monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._beat_us = clock.now().mono_us

    def beat(self) -> None:
        """Note that the loop came by."""
        self._beat_us = self._clock.now().mono_us

    def answer(self, accept: str) -> Reply:
        """Answer /healthz: 200 while the loop came by in the last ten seconds, else 503."""
        del accept
        quiet_us = self._clock.now().mono_us - self._beat_us
        if quiet_us <= _ALIVE_US:
            return Reply.text(HTTPStatus.OK, "alive")
        line = f"the main loop has not turned for {quiet_us // US_PER_SECOND} s"
        return Reply.text(HTTPStatus.SERVICE_UNAVAILABLE, line)


class Readiness:
    """Whether readers of the lake see what is written, found out by reading it.

    Args:
        check: The real check; it costs a query, so its answer holds for a second.
        clock: Monotonic time.
    """

    def __init__(self, check: Check, clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._lock = threading.Lock()
        self._checked_us: int | None = None
        self._why_not = ""

    def answer(self, accept: str) -> Reply:
        """Answer /readyz: 200, or 503 and why not."""
        del accept
        with self._lock:
            now_us = self._clock.now().mono_us
            if self._checked_us is None or now_us - self._checked_us > _ASK_AGAIN_US:
                self._checked_us, self._why_not = now_us, self._check()
            why_not = self._why_not
        if why_not:
            return Reply.text(HTTPStatus.SERVICE_UNAVAILABLE, why_not)
        return Reply.text(HTTPStatus.OK, "ready")


def routes_of(
    page: Page, heartbeat: Heartbeat, readiness: Readiness, gpu: GpuOrders
) -> Mapping[str, Route | Post]:
    """Return the collector's paths."""

    def metrics(accept: str) -> Reply:
        content_type, body = render(page, accept)
        return Reply(HTTPStatus.OK, body, content_type)

    return {
        "/metrics": metrics,
        "/healthz": heartbeat.answer,
        "/readyz": readiness.answer,
        "/gpu": Post(gpu.answer),
    }


def listen(
    address: tuple[str, int], routes: Mapping[str, Route | Post], token: str | None
) -> Listener | None:
    """Listen.

    Args:
        address: Host and TCP port.
        routes: What each path answers.
        token: Bearer token that readers must show, or None.

    Returns:
        None when the port cannot be had: that is logged, and everything else runs.
    """
    try:
        listener = Listener(address, routes, Access(token))
    except OSError as error:
        _LOG.warning(
            "port %d on %s cannot be listened on (%s): no %s; the rest runs. "
            "Choose another collect.listen_port",
            *(address[1], address[0], error.strerror or error, " ".join(routes)),
        )
        return None
    _LOG.info("http://%s:%d answers %s", address[0], listener.port, " ".join(routes))
    return listener
