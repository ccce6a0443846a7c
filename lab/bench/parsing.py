"""Our parser of metrics pages against the official one, on the same moving page."""

from __future__ import annotations

from functools import partial

from prometheus_client.parser import text_string_to_metric_families

from collector.edges.promtext import Parser
from lab.bench.figure import Figure
from lab.bench.machine import time_ms
from lab.synthetic.engine_page import EngineState

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def measure_parsing(repeats: int) -> list[Figure]:
    """Return milliseconds per page; after the first page our parser knows the series."""
    state = EngineState()
    pages = [state.page() for _ in range(repeats + 1)]
    parser = Parser()
    parser.parse(pages[0].encode(), _CONTENT_TYPE)
    bodies = [page.encode() for page in pages[1:]]
    ours = [time_ms(partial(parser.parse, body, _CONTENT_TYPE)) for body in bodies]
    theirs = [time_ms(partial(_parse_officially, page)) for page in pages[1:]]
    series = sum(not line.startswith("#") for line in pages[0].splitlines())
    name = f"page of {series} series, {len(pages[0]) // 1_000} kB"
    rival = f"{sorted(theirs)[len(theirs) // 2]:.2f} ms (prometheus_client)"
    return [Figure("parse", name, "ms", ours, rival=rival)]


def _parse_officially(page: str) -> list[object]:
    return list(text_string_to_metric_families(page))
