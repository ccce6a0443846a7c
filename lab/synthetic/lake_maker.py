"""Makes a lake of past hours in seconds: rows go straight into merged segments."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pyarrow as pa

from stallscope.schema import TABLES
from stallscope.storage.layout import create_lake
from stallscope.storage.manifest import Entry, ManifestWriter
from stallscope.storage.segment import Origin, write_segment

_WRITER = "lab"
_HOUR_LEVEL = 2
_GROUP_ROWS = 65_536


class LakeMaker:
    """Adds segments to a new lake; use as a context manager.

    Args:
        root: Folder of the lake; made when absent.
    """

    def __init__(self, root: Path) -> None:
        self._layout = create_lake(root, "lab")
        self._manifest = ManifestWriter(self._layout.manifest(_WRITER), sync=False)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._manifest.close()

    def add(self, name: str, rows: pa.Table) -> Entry:
        """Add rows of a table as one segment, ordered as merging orders them."""
        self._sequence += 1
        origin = Origin(_WRITER, self._sequence, self._sequence, "lab", _HOUR_LEVEL)
        table = TABLES[name]
        keys = [key for key in (*table.key, table.time) if key]
        groups = [
            rows.slice(begin, _GROUP_ROWS)
            if table.time_ordered
            else rows.slice(begin, _GROUP_ROWS).sort_by([(key, "ascending") for key in keys])
            for begin in range(0, rows.num_rows, _GROUP_ROWS)
        ]
        entry = write_segment(self._layout.segments, table, groups, origin, sync=False)
        self._manifest.commit(add=[entry])
        return entry
