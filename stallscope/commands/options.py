"""The options that every command takes, and the settings they lead to."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from stallscope.errors import SettingsError
from stallscope.settings import SERVICE_LAKE, Resolved, Settings, find_file, load, resolve


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Add --lake, --config, --engine and --set."""
    group = parser.add_argument_group("settings")
    group.add_argument("--lake", metavar="DIR", help="folder of the lake (lake.path)")
    group.add_argument("--config", metavar="FILE", help="settings file")
    group.add_argument(
        "--engine",
        metavar="NAME=URL",
        action="append",
        default=[],
        help="an engine to read, such as chat=http://127.0.0.1:8000; may be repeated",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="any setting, such as dashboard.port=8502; may be repeated",
    )


def load_settings(arguments: argparse.Namespace) -> Settings:
    """Return the settings in force.

    Raises:
        SettingsError: See `stallscope.settings.load`.
    """
    return load(settings_file(arguments), os.environ, flags_of(arguments))


def resolve_settings(arguments: argparse.Namespace) -> Resolved:
    """Return the settings with their origins and problems.

    Raises:
        SettingsError: The settings file cannot be read.
    """
    return resolve(settings_file(arguments), os.environ, flags_of(arguments))


def settings_file(arguments: argparse.Namespace) -> Path | None:
    """Return the settings file to read, or None when there is none."""
    return Path(arguments.config) if arguments.config else find_file(os.environ)


def flags_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what the options set, by dotted name.

    Raises:
        SettingsError: A --set is not KEY=VALUE.
    """
    flags = {}
    for assignment in arguments.assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise SettingsError(
                f"--set {assignment}: want KEY=VALUE", "For example --set dashboard.port=8502."
            )
        flags[key.strip()] = value
    if arguments.lake:
        flags["lake.path"] = arguments.lake
    if arguments.engine:
        flags["engines"] = ",".join(arguments.engine)
    return flags


def forwarded(arguments: argparse.Namespace) -> list[str]:
    """Return the options again, for a child process that runs another command."""
    words = []
    for option, values in (
        ("--config", [arguments.config] if arguments.config else []),
        ("--lake", [arguments.lake] if arguments.lake else []),
        ("--engine", arguments.engine),
        ("--set", arguments.assignments),
    ):
        words += [f"{option}={value}" for value in values]
    return words


def as_environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Return the options as environment variables, for a child that takes none of them."""
    variables = {
        f"STALLSCOPE_{key.replace('.', '_').upper()}": value
        for key, value in flags_of(arguments).items()
    }
    file = settings_file(arguments)
    if file is not None:
        variables["STALLSCOPE_CONFIG"] = str(file.absolute())
    return variables


def lake_to_read(arguments: argparse.Namespace) -> tuple[Path, Settings]:
    """Return the lake that a reading command means, and the settings.

    Somebody who names no lake and has none of their own means the one of this host's service.

    Raises:
        SettingsError: See `stallscope.settings.load`.
    """
    settings = load_settings(arguments)
    path = settings.lake.path
    named = resolve_settings(arguments).origins["lake.path"] != "default"
    if not named and not _holds_lake(path) and _holds_lake(SERVICE_LAKE):
        sys.stderr.write(f"stallscope: reading {SERVICE_LAKE}; there is no lake at {path}\n")
        path = SERVICE_LAKE
    return path, settings


def _holds_lake(path: Path) -> bool:
    return os.access(path / "lake.json", os.R_OK)
