"""`stallscope settings`: an example file, or what is in force and where it comes from."""

from __future__ import annotations

import argparse
import sys

from stallscope.commands.json_text import json_text
from stallscope.commands.messages import complain
from stallscope.commands.options import add_settings_options, resolve_settings, settings_file
from stallscope.commands.text_table import text_table
from stallscope.settings_render import effective, example


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--example", action="store_true", help="print a commented settings file")
    what.add_argument(
        "--check", action="store_true", help="print what is in force and where it comes from"
    )
    parser.add_argument("--json", action="store_true", help="with --check: as JSON")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print; returns 1 when a setting is wrong.

    Raises:
        SettingsError: The settings file cannot be read.
    """
    if arguments.example:
        sys.stdout.write(example())
        return 0
    resolved = resolve_settings(arguments)
    rows = effective(resolved)
    if arguments.json:
        sys.stdout.write(
            json_text(
                {
                    "file": settings_file(arguments),
                    "settings": rows,
                    "problems": [
                        {"message": problem.message, "hint": problem.hint}
                        for problem in resolved.problems
                    ],
                }
            )
        )
    else:
        table = [(row["key"], _shown(row["value"]), row["origin"]) for row in rows]
        sys.stdout.write(text_table(("setting", "value", "from"), table))
    for problem in resolved.problems:
        complain(problem)
    return int(bool(resolved.problems))


def _shown(value: object) -> object:
    if value is None:
        return "-"
    if isinstance(value, list):
        return (
            " ".join(
                f"{item['name']}={item['url']}" if isinstance(item, dict) else str(item)
                for item in value
            )
            or "-"
        )
    return str(value) if not isinstance(value, bool) else value
