"""The SQL library: documented views and macros that the catalog publishes and readers apply."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

# Order matters: a statement may use what stands before it.
MODULES = (
    "time",
    "histogram_bucket",
    "histogram_quantile",
    "latency_quantile",
    "itl_quantile",
    "itl_per_token",
    "ttft_quantile",
    "requests",
    "requests_by_class",
    "kv_hits",
    "kv_hit",
    "kv_hits_of_steps",
    "kv_fetches",
    "copy_path",
    "copy_path_minutes",
    "uplinks",
    "link_ceilings",
    "topology",
    "throttle_words",
    "intervals",
    "itl_excess",
    "copy_contention",
    "kv_copies",
    "engine_work",
    "api_server_stall",
    "slowest_gaps",
    "request_timeline",
)


@cache
def library_statements(*modules: str) -> tuple[str, ...]:
    """Return CREATE statements, header comments included, to run in order.

    They need the tables of `stallscope.schema` as views with a ``time`` column, run on DuckDB 1.5
    and 2.0, and may be run again over themselves.

    Args:
        modules: Which of `MODULES`; none means all of them. Order is that of `MODULES` either way.

    Raises:
        KeyError: No such module.
    """
    unknown = set(modules) - set(MODULES)
    if unknown:
        raise KeyError(f"no SQL module {', '.join(sorted(unknown))}")
    chosen = [module for module in MODULES if module in modules or not modules]
    return tuple(statement for module in chosen for statement in _split(_read(module)))


def _read(module: str) -> str:
    """Return the text of a module."""
    return files("analytics").joinpath("sql", f"{module}.sql").read_text(encoding="utf-8")


def _split(text: str) -> list[str]:
    """Return the statements of a module: each ends with a semicolon at the end of a line."""
    return [part.strip() for part in text.split(";\n") if part.strip()]
