"""`stallscope lake`: what lies in a lake, whether it is sound, and its upkeep."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from analytics.catalog import library_statements
from stallscope.clock import SystemClock
from stallscope.commands.json_text import json_text
from stallscope.commands.options import add_settings_options, lake_to_read
from stallscope.commands.progress import progress
from stallscope.commands.text_table import text_table
from stallscope.storage.maintenance import compact_now, relocate, verify
from stallscope.storage.reader import Lake, LakeStatus

_ACTIONS = {
    "status": "what lies in it",
    "verify": "compare every segment with its digest; 1 when something is damaged",
    "compact": "merge small segments now, while no collector runs",
    "relocate": "publish the catalog anew after the folder was moved",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "action",
        choices=_ACTIONS,
        help="; ".join(f"{name}: {meaning}" for name, meaning in _ACTIONS.items()),
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked; returns the exit status.

    Raises:
        StallscopeError: The settings are wrong, or the lake cannot be used.
    """
    path, _ = lake_to_read(arguments)
    actions: Mapping[str, Callable[[Path, bool], int]] = {
        "status": _status,
        "verify": _verify,
        "compact": _compact,
        "relocate": _relocate,
    }
    return actions[arguments.action](path, arguments.json)


def _status(path: Path, as_json: bool) -> int:  # noqa: FBT001 - all actions are called alike
    status = Lake(path).status()
    if as_json:
        sys.stdout.write(json_text({"lake": path, **_as_object(status)}))
    else:
        sys.stdout.write(_status_text(path, status))
    return int(bool(status.damaged or status.quarantine))


def _as_object(status: LakeStatus) -> dict[str, object]:
    names = ("table", "segments", "rows", "bytes")
    tables = [dict(zip(names, row, strict=True)) for row in status.tables]
    return asdict(status) | {"tables": tables}


def _status_text(path: Path, status: LakeStatus) -> str:
    lines = [
        f"lake      {path}",
        f"segments  {status.segments} with {status.rows:,} rows, {size_text(status.bytes)}",
        f"from      {_time_text(status.oldest_us)} to {_time_text(status.newest_us)}",
        *(f"damaged   {reason}" for reason in status.damaged),
        *(f"set aside {item.file}: {item.reason}" for item in status.quarantine),
    ]
    table = text_table(("table", "segments", "rows", "bytes"), status.tables)
    return "\n".join(lines) + "\n\n" + table


def _verify(path: Path, as_json: bool) -> int:  # noqa: FBT001
    with progress("reading every segment"):
        findings = verify(path)
    if as_json:
        sys.stdout.write(json_text([asdict(finding) for finding in findings]))
    elif findings:
        rows = [(item.file, item.problem, item.rows) for item in findings]
        sys.stdout.write(text_table(("file", "problem", "rows"), rows))
    else:
        sys.stdout.write(f"{path} is sound: {Lake(path).status().segments} segments read\n")
    return int(bool(findings))


def _compact(path: Path, as_json: bool) -> int:  # noqa: FBT001
    with progress("merging segments"):
        merges = compact_now(path, SystemClock())
    sys.stdout.write(json_text({"merges": merges}) if as_json else f"{merges} merges done\n")
    return 0


def _relocate(path: Path, as_json: bool) -> int:  # noqa: FBT001
    catalog = relocate(path, library_statements())
    sys.stdout.write(json_text({"catalog": catalog}) if as_json else f"published {catalog}\n")
    return 0


def size_text(size: int) -> str:
    """Return a size in bytes with a decimal unit, three significant digits."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:  # noqa: PLR2004 - from here three digits round up to 1000
            break
        value, unit = value / 1_000, larger
    return f"{value:.3g} {unit}" if unit != "B" else f"{size} B"


def _time_text(wall_us: int | None) -> str:
    if wall_us is None:
        return "-"
    moment = dt.datetime.fromtimestamp(wall_us / 1_000_000, tz=dt.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
