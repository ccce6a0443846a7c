"""Checks of this installation: lake, free space, ports, pages, the SQL sandbox."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from stallscope.commands.checks import Check
from stallscope.commands.dashboard import HEALTH
from stallscope.commands.lake import size_text
from stallscope.errors import LakeError
from stallscope.ports import answers, why_not_free
from stallscope.settings import LakeSettings, Settings
from stallscope.sql.sandbox import landlock_version
from stallscope.storage.reader import Lake

_TOO_LITTLE_BYTES = 500_000_000


def check_installation(settings: Settings) -> list[Check]:
    """Return every check that needs no source."""
    collect, dashboard = settings.collect, settings.dashboard
    return [
        check_lake(settings.lake.path),
        check_space(settings.lake),
        check_port(
            "port_collect",
            (collect.listen_address, collect.listen_port),
            "/healthz",
            "collect.listen_port",
        ),
        check_port("port_dashboard", (dashboard.address, dashboard.port), HEALTH, "dashboard.port"),
        check_dashboard(),
        check_sandbox(),
    ]


def check_lake(path: Path) -> Check:
    """Return whether the lake is there and can be written by this user."""
    if not os.access(path / "lake.json", os.F_OK):
        return _check_future_lake(path)
    try:
        segments = Lake(path).status().segments
    except LakeError as error:
        return Check("lake", "failed", error.message, error.hint)
    if not may_write(path):
        return Check(
            "lake",
            "restricted",
            f"{path} can be read but not written by this user",
            "Run the collector as the owner of the folder.",
        )
    return Check("lake", "working", f"{path} with {segments} segments", "Nothing to do.")


def _check_future_lake(path: Path) -> Check:
    parent = existing_parent(path)
    if not parent.is_dir():
        return Check("lake", "failed", f"{parent} is not a folder", "Choose another with --lake.")
    if not may_write(parent):
        return Check(
            "lake",
            "restricted",
            f"no lake yet, and {parent} is not writable",
            "Give this user write rights, or choose another folder with --lake.",
        )
    return Check("lake", "not_found", f"no lake yet at {path}", "stallscope up makes it.")


def check_space(lake: LakeSettings) -> Check:
    """Return whether the lake's disk has room for what the settings allow."""
    parent = existing_parent(lake.path)
    try:
        free = free_bytes(parent)
    except OSError as error:
        return Check(
            "lake_space",
            "failed",
            f"{parent}: {error.strerror}",
            "Choose another folder with --lake.",
        )
    reason = f"{size_text(free)} free at {parent}"
    if free < _TOO_LITTLE_BYTES:
        return Check("lake_space", "failed", reason, "Free space: rows will be dropped soon.")
    if free < lake.raw_bytes:
        return Check(
            "lake_space",
            "partial",
            f"{reason}, lake.raw_bytes allows {size_text(lake.raw_bytes)}",
            "Free space or lower lake.raw_bytes.",
        )
    return Check("lake_space", "working", reason, "Nothing to do.")


def check_port(name: str, place: tuple[str, int], path: str, key: str) -> Check:
    """Return whether a port of ours is free or already answered by us."""
    taken = why_not_free(*place)
    if not taken:
        return Check(name, "working", f"{place[1]} is free", "Nothing to do.")
    if answers(*place, path):
        return Check(name, "working", f"{place[1]} answers: it runs already", "Nothing to do.")
    return Check(name, "failed", taken, f"Choose another: --set {key}={place[1] + 1}")


def check_dashboard() -> Check:
    """Return whether the pages can be served."""
    if find_spec("streamlit") is None:
        return Check(
            "dashboard",
            "not_found",
            "Streamlit is not installed",
            "To have the pages: pip install '.[dashboard]' in a checkout",
        )
    return Check("dashboard", "working", "", "Nothing to do.")


def check_sandbox() -> Check:
    """Return whether the kernel confines queries besides DuckDB's own locks."""
    version = landlock_version()
    if version < 1:
        return Check(
            "sql_sandbox",
            "unsupported",
            "this kernel has no Landlock",
            "Queries are confined by DuckDB and by the statement check alone; Linux 5.13 "
            "with CONFIG_SECURITY_LANDLOCK adds the kernel's lock.",
        )
    return Check("sql_sandbox", "working", f"Landlock {version}", "Nothing to do.")


def may_write(folder: Path) -> bool:
    """Return whether this user may write in a folder."""
    return os.access(folder, os.W_OK)


def free_bytes(folder: Path) -> int:
    """Return the free space of a folder's disk for this user.

    Raises:
        OSError: The folder cannot be looked at.
    """
    return shutil.disk_usage(folder).free


def existing_parent(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    while not os.access(path, os.F_OK) and path != path.parent:
        path = path.parent
    return path
