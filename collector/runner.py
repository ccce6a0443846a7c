"""The collector: opens the lake, puts every source to work, answers on HTTP, and leaves nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from collector.collection import Collection, Outlets
from collector.endpoints import Heartbeat, Readiness, listen, routes_of
from collector.gpu_orders import GpuOrders
from collector.log_lines import start_logging
from collector.names import NamesOfOneSource, PassingStore, StoredNames
from collector.readiness import why_not_ready
from collector.registry import SOURCES, BrokenSource, Links, build_source
from collector.single_reading import Named, SourceReport, read_each
from collector.source import Machine, Names, NoData, Reading, Source, SourceError
from collector.source_loop import describe_crash
from stallscope.clock import Clock, SystemClock
from stallscope.errors import LakeError
from stallscope.exposition.page import Page
from stallscope.schema import SCHEMA_VERSION
from stallscope.settings import Settings
from stallscope.storage.publisher import Publisher
from stallscope.storage.retention import Limits
from stallscope.storage.shared_facts import SharedFacts
from stallscope.storage.writer import Writer, WriterHealth, WriterOptions
from stallscope.units import US_PER_SECOND

_LOG = logging.getLogger("stallscope.collect")
_WRITER = "collect"
_LAST_PUBLISH_S = 5.0
_PUBLISH_EVERY_US = 2 * US_PER_SECOND - US_PER_SECOND // 5


class CatalogSource:
    """Publishes the lake's catalog; polled like a source, so it has a pace, a watch and a row.

    It looks often and publishes every two seconds, at once after a seal: the newest row that an
    outside reader sees is then 1.4 s old in the median, for half the CPU of publishing each second.

    Args:
        publisher: What publishes.
        clock: Where the time comes from.
    """

    name = "catalog"
    tables: tuple[str, ...] = ()
    interval_us = US_PER_SECOND // 10
    deadline_us = 20 * US_PER_SECOND

    def __init__(self, publisher: Publisher, clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self._next_us = 0

    def read(self) -> Reading | NoData:
        """Publish when segments have changed and the last time is long enough ago.

        Raises:
            SourceError: The disk refused; the catalog stays as it was.
        """
        now_us = self._clock.now().mono_us
        if now_us < self._next_us:
            return Reading({})
        try:
            if self._publisher.publish_if_changed():
                self._next_us = now_us + _PUBLISH_EVERY_US
        except (OSError, LakeError) as error:
            msg = f"the catalog cannot be written: {getattr(error, 'strerror', '') or error}"
            raise SourceError(msg) from error
        return Reading({})

    def close(self) -> None:
        """Do nothing: the catalog stays."""


def run(settings: Settings, library: Sequence[str], stop: threading.Event) -> int:
    """Collect until told to stop, then seal everything and publish it.

    Args:
        settings: What to read and where to write.
        library: SQL statements that the catalog carries besides the tables.
        stop: Set it to stop; what was read is sealed before the function returns.

    Returns:
        The exit status: 0.

    Raises:
        LakeError: The lake cannot be written, or another collector writes it.
    """
    start_logging()
    clock = SystemClock()
    writer = Writer.open(settings.lake.path, _WRITER, clock=clock, options=_options(settings))
    publisher = Publisher(writer.layout, library)
    _LOG.info("collecting into %s, stopped by SIGTERM or Ctrl-C", writer.layout.root)
    try:
        _collect(settings, writer, publisher, clock, stop)
    finally:
        writer.close()
    _tell_end(writer.health())
    _publish_last(publisher)
    return 0


def read_once(settings: Settings) -> list[SourceReport]:
    """Return one reading of every source, in the order of the registry; nothing is written.

    A source whose rates need two polls is polled twice. No source can hold the others up for
    longer than its deadlines.
    """
    clock = SystemClock()
    names = StoredNames(PassingStore(), clock)
    links = Links(looks_only=True)
    sources = []
    for entry in SOURCES:
        own = NamesOfOneSource(names, clock)
        source = build_source(entry, _machine(settings, clock, own), settings, links)
        sources.append(Named(source, own))
    return read_each(sources)


def _collect(
    settings: Settings,
    writer: Writer,
    publisher: Publisher,
    clock: Clock,
    stop: threading.Event,
) -> None:
    names = StoredNames(writer, clock)
    machine = _machine(settings, clock, names)
    links = Links(ceilings=SharedFacts(writer.layout, "link_ceiling").rows)
    sources = [build_source(entry, machine, settings, links) for entry in SOURCES]
    page = Page(names.known, clock, _build_labels(settings.host.name))
    heartbeat = Heartbeat(clock)
    readiness = Readiness(lambda: why_not_ready(writer, clock), clock)
    outlets = Outlets(writer.append, page.observe, writer.health, heartbeat.beat)
    services = [CatalogSource(publisher, clock), *_exports(settings, page, clock)]
    collection = Collection([*sources, *services], outlets, clock)
    listen_at = (settings.collect.listen_address, settings.collect.listen_port)
    routes = routes_of(page, heartbeat, readiness, GpuOrders(links.gpu_requests, clock))
    listener = listen(listen_at, routes, settings.collect.token)
    try:
        collection.run(stop)
    finally:
        if listener is not None:
            listener.close()


def _exports(settings: Settings, page: Page, clock: Clock) -> list[Source]:
    """Return what sends our own metrics; nothing where no setting says where to."""
    endpoint, headers = settings.otlp.export_endpoint, settings.otlp.export_headers
    if endpoint is None:
        return []
    try:
        from collector.otlp_export import OtlpExport  # noqa: PLC0415 - only who wants it pays

        facts = _build_labels(settings.host.name)
        resource = {"host.name": facts["host"], "service.version": facts["version"]}
        return [OtlpExport(page, clock, endpoint, headers=headers, resource=resource)]
    except Exception as error:  # noqa: BLE001 - metrics that are not sent must not end the collector
        missing = isinstance(error, ImportError)
        hint = "needs stallscope[otlp]" if missing else "cannot be used"
        reason = f"otlp.export_endpoint {hint}: {error}"
        return [BrokenSource("otlp_export", reason)]


def _tell_end(health: WriterHealth) -> None:
    if health.state == "working":
        _LOG.info("stopped; everything is sealed")
        return
    _LOG.warning(
        "stopped; the next start seals the last %d rows from the journal, rows that came later are "
        "lost: %s",
        *(health.pending_rows, health.reason),
    )


def _publish_last(publisher: Publisher) -> None:
    """Show outside readers what the last seal wrote; a publisher that hangs is not waited for."""
    thread = threading.Thread(target=_try_publish, args=(publisher,), daemon=True)
    thread.start()
    thread.join(_LAST_PUBLISH_S)
    if thread.is_alive():
        _LOG.warning("the catalog lacks the last seconds: publishing does not end")


def _try_publish(publisher: Publisher) -> None:
    try:
        publisher.publish_if_changed()
    except Exception as error:  # noqa: BLE001 - all is sealed; only outside readers lag behind
        _LOG.warning("the catalog lacks the last seconds: %s", describe_crash(error))


def _options(settings: Settings) -> WriterOptions:
    lake = settings.lake
    return WriterOptions(
        journal_sync=lake.fsync,
        limits=Limits(lake.raw_hours, lake.raw_bytes, lake.rollup_days),
        host=settings.host.name,
        proc=settings.host.proc,
    )


def _machine(settings: Settings, clock: Clock, names: Names) -> Machine:
    host = settings.host
    return Machine(proc=host.proc, sys=host.sys, host=host.name, clock=clock, names=names)


def _build_labels(host: str) -> dict[str, str]:
    try:
        release = version("stallscope")
    except PackageNotFoundError:  # run from a checkout that is not installed
        release = "unknown"
    return {"version": release, "schema_version": str(SCHEMA_VERSION), "host": host}
