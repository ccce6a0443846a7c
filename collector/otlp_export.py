"""Sends the collector's own metrics by OTLP over HTTP, where a setting names an endpoint.

The SDK's thread collects and sends every ten seconds; nothing of the collector waits for it. While
the endpoint does not answer, tries become rare, and source_health says why. Imported only when an
endpoint is set.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from urllib.parse import unquote, urlsplit

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource

from collector.source import NoData, Reading, SourceError
from stallscope.clock import Clock
from stallscope.exposition.otel_series import COUNTER, SUM, Instrument, Point, instruments, points
from stallscope.exposition.page import Page
from stallscope.units import US_PER_MS, US_PER_SECOND

INTERVAL_US = 10 * US_PER_SECOND
_LONGEST_REST_US = 300 * US_PER_SECOND
_ONE_TRY_S = 5.0
_LEAVE_S = 2.0
_PATH = "/v1/metrics"
_LONGEST_REASON = 200
_FRESH_US = US_PER_SECOND  # all instruments of one collection show the same page


class OtlpExport:
    """Exports the page; polled like a source, so it has a watch and a row.

    Args:
        page: What is exported.
        clock: Paces tries.
        endpoint: Where to; ``/v1/metrics`` is added where it has no path.
        headers: As ``name=value,name=value``, values percent-encoded; None for none.
        resource: Attributes of this host and collector.
        interval_us: Distance of exports.
    """

    name = "otlp_export"
    tables: tuple[str, ...] = ()
    interval_us = US_PER_SECOND
    deadline_us = 5 * US_PER_SECOND

    def __init__(
        self,
        page: Page,
        clock: Clock,
        endpoint: str,
        *,
        headers: str | None = None,
        resource: Mapping[str, str] | None = None,
        interval_us: int = INTERVAL_US,
    ) -> None:
        self._quiet = _Quiet()
        self._exporter = _Exporter(
            clock, _metrics_url(endpoint), _parse_headers(headers), self._quiet
        )
        # The SDK's own look at the environment (OTEL_RESOURCE_ATTRIBUTES) adds what people set.
        self._provider = MeterProvider(
            [
                PeriodicExportingMetricReader(
                    self._exporter, interval_us / US_PER_MS, _ONE_TRY_S * 1_000
                )
            ],
            Resource.create({"service.name": "stallscope", **(resource or {})}),
            shutdown_on_exit=False,
        )
        _observe(self._provider.get_meter("stallscope"), _Snapshot(page, clock))

    def read(self) -> Reading | NoData:
        """Return that all is well.

        Raises:
            SourceError: The last export failed.
        """
        if self._exporter.trouble:
            raise SourceError(self._exporter.trouble)
        return Reading({})

    def close(self) -> None:
        """Send what there is once more, and leave after two seconds whatever comes of it."""
        leaving = threading.Thread(target=self._shut_down, name="otlp-export-end", daemon=True)
        leaving.start()
        leaving.join(_LEAVE_S)

    def _shut_down(self) -> None:
        try:
            self._provider.shutdown(_LEAVE_S * 1_000)
        finally:
            self._quiet.stop()


class _Exporter(OTLPMetricExporter):
    """The SDK's exporter, which tries less often while the endpoint takes nothing.

    Attributes:
        trouble: Why the last export failed; empty when it did not.
    """

    def __init__(self, clock: Clock, url: str, headers: Mapping[str, str], quiet: _Quiet) -> None:
        super().__init__(url, headers=headers, timeout=_ONE_TRY_S, compression=Compression.Gzip)
        self._clock = clock
        self._place = urlsplit(url).netloc.rpartition("@")[2]  # without credentials
        self._rest_us = 0
        self._due_us = 0
        self._quiet = quiet
        self.trouble = ""

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: object
    ) -> MetricExportResult:
        """Send metrics, unless the endpoint is at rest."""
        if self._clock.now().mono_us < self._due_us:
            return MetricExportResult.FAILURE
        self._quiet.first = ""
        result = super().export(metrics_data, timeout_millis, **kwargs)
        if result is MetricExportResult.SUCCESS:
            self.trouble, self._rest_us = "", 0
        else:
            self._rest()
        return result

    def _rest(self) -> None:
        """Leave the endpoint alone, twice as long as the time before."""
        self._rest_us = min(max(2 * self._rest_us, INTERVAL_US), _LONGEST_REST_US)
        self._due_us = self._clock.now().mono_us + self._rest_us
        rest_s = self._rest_us // US_PER_SECOND
        why = self._quiet.first or "no reason was given"
        self.trouble = f"{self._place} does not take metrics, next try in {rest_s} s: {why}"


class _Quiet(logging.Handler):
    """Takes what the SDK logs: an endpoint that is down is told in source_health, not every 10 s.

    Attributes:
        first: The first line since somebody emptied it: that one says what went wrong.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        self._logger.propagate = False

    def stop(self) -> None:
        """Leave the SDK's lines to the log again."""
        self._logger.removeHandler(self)
        self._logger.propagate = not any(isinstance(one, _Quiet) for one in self._logger.handlers)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line."""
        self.first = self.first or _say(record)[:_LONGEST_REASON]


def _say(record: logging.LogRecord) -> str:
    """Return what a line is about: the error beneath those that were raised on top of it."""
    for argument in record.args if isinstance(record.args, tuple) else ():
        if isinstance(argument, BaseException):
            while argument.__context__ is not None:
                argument = argument.__context__  # noqa: PLW2901 - climbing down is the point
            return str(argument)
    return record.getMessage()


class _Snapshot:
    """The page, looked at once per collection and not once per instrument.

    Args:
        page: The page.
        clock: Says when a look is old.
    """

    def __init__(self, page: Page, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self._points: Mapping[str, list[Point]] = {}
        self._taken_us: int | None = None

    def observe(self, name: str, options: CallbackOptions) -> Iterable[Observation]:
        """Yield an instrument's values; what has none right now is left out."""
        del options
        now_us = self._clock.now().mono_us
        if self._taken_us is None or now_us - self._taken_us >= _FRESH_US:
            self._points, self._taken_us = points(self._page.collect()), now_us
        return [
            Observation(point.value, dict(point.attributes)) for point in self._points.get(name, ())
        ]


def _observe(meter: Meter, snapshot: _Snapshot) -> None:
    for instrument in instruments():
        callback = partial(snapshot.observe, instrument.name)
        _creator(meter, instrument)(
            instrument.name, [callback], instrument.unit, instrument.meaning
        )


def _creator(meter: Meter, instrument: Instrument) -> Callable[..., object]:
    if instrument.kind == COUNTER:
        return meter.create_observable_counter
    if instrument.kind == SUM:
        return meter.create_observable_up_down_counter
    return meter.create_observable_gauge


def _metrics_url(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return parts._replace(path=_PATH if parts.path in {"", "/"} else parts.path).geturl()


def _parse_headers(text: str | None) -> dict[str, str]:
    """Return headers as OTEL_EXPORTER_OTLP_HEADERS spells them."""
    pairs = (pair.partition("=") for pair in (text or "").split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
