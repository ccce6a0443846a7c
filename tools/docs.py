"""Writes the reference pages that are made from code; with ``--check`` only compares them.

Exit code: 0 when every page is up to date, 1 when ``--check`` found one that is not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from stallscope import settings_render
from stallscope.exposition import families, otel
from tools import schema_page

REPO = Path(__file__).resolve().parent.parent

_METRICS_HEAD = """\
# Metrics

Generated from the schema and `stallscope/exposition/families.py` by `make docs`; do not edit.

`stallscope collect` serves them at `/metrics` on its loopback port, as Prometheus text or
OpenMetrics, whichever is asked for. Names are frozen: a rename is a breaking change. A value that
is missing has no sample; `stallscope_collector_source_state` says why, for a GPU's link
`stallscope_pcie_link_state`.

"""
_OTEL_HEAD = """
## OpenTelemetry names

What each is called by OpenTelemetry's hardware conventions; `a = b` means that attribute a carries
the value of label b. Generated from `stallscope/exposition/otel.py`; nothing sends them yet.

"""


def metrics_page() -> str:
    """Return docs/metrics.md."""
    return f"{_METRICS_HEAD}{families.render_reference()}{_OTEL_HEAD}{otel.render_names()}"


PAGES: dict[str, Callable[[], str]] = {
    "docs/schema.md": schema_page.render,
    "docs/metrics.md": metrics_page,
    "docs/stallscope.toml": settings_render.example,
}
"""Path in the repository -> what makes its text."""


def find_stale() -> list[str]:
    """Return the pages whose text on disk is not what the code says."""
    return [name for name, make in PAGES.items() if _read(name) != make()]


def main() -> int:
    """Write or check every page."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    stale = find_stale()
    if parser.parse_args().check:
        sys.stderr.writelines(f"{name} is out of date: make docs\n" for name in stale)
        return 1 if stale else 0
    for name in stale:
        (REPO / name).write_text(PAGES[name](), encoding="utf-8")
        sys.stderr.write(f"wrote {name}\n")
    return 0


def _read(name: str) -> str:
    path = REPO / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
