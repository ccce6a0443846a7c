"""Every table of the lake: the only contract between what writes and what reads.

Out of it come the Arrow schemas, the SQL views, docs/schema.md, the exposition names and the row
strategies of the tests. A column or metric that is renamed or removed bumps `SCHEMA_VERSION`.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from stallscope.columns import ARROW, Table
from stallscope.tables import engine, facts, gpu, host, results, rollups

SCHEMA_VERSION = 2

CAUSES = (
    "h2d_copy",
    "d2h_copy",
    "weight_offload",
    "link_degraded",
    "kv_reload",
    "nvme_latency",
    "nvme_queue",
    "load",
    "prefill",
    "preemption",
    "throttle",
    "numa",
    "host_cpu",
    "api_stall",
    "unexplained",
)

_SIGNALS = host.TABLES + gpu.TABLES + engine.TABLES
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        *_SIGNALS,
        *facts.TABLES,
        *results.TABLES,
        *rollups.rollup_tables(_SIGNALS),
    )
}


def table(name: str) -> Table:
    """Return the table of that name.

    Raises:
        KeyError: No such table.
    """
    return TABLES[name]


@cache
def arrow_schema(name: str) -> pa.Schema:
    """Return the Arrow schema of a table, as segments of this schema version store it."""
    return pa.schema(
        [
            pa.field(column.name, ARROW[column.kind], nullable=column.nullable)
            for column in TABLES[name].columns
        ]
    )
