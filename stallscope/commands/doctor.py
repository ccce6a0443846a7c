"""`stallscope doctor`: what works here, what does not, why, and what to do."""

from __future__ import annotations

import argparse
import sys

from collector.runner import read_once
from stallscope.commands.checks import Check, exit_status
from stallscope.commands.installation import check_installation
from stallscope.commands.json_text import json_text
from stallscope.commands.options import add_settings_options, load_settings, settings_file
from stallscope.commands.text_table import cell_text
from stallscope.settings import Settings

_SIGNS = {
    "working": "ok",
    "partial": "part",
    "not_found": "none",
    "not_applicable": "none",
    "unsupported": "none",
    "disabled": "off",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look at everything; returns 1 when something is broken or forbidden.

    Raises:
        SettingsError: The settings are wrong.
    """
    settings = load_settings(arguments)
    file = settings_file(arguments)
    checks = [
        Check(
            "settings",
            "working",
            str(file) if file else "no file: defaults and environment",
            "See all: stallscope settings --check",
        ),
        *check_installation(settings),
        *check_sources(settings),
    ]
    if arguments.json:
        sys.stdout.write(json_text([check.as_object() for check in checks]))
    else:
        sys.stdout.write("".join(map(_lines_of, checks)))
    return exit_status(check.state for check in checks)


def check_sources(settings: Settings) -> list[Check]:
    """Return what one reading of every source came to."""
    return [
        Check(report.source, report.state.value, report.reason, report.hint)
        for report in read_once(settings)
    ]


def _lines_of(check: Check) -> str:
    head = f"{_SIGNS.get(check.state, 'FAIL'):4}  {check.source:16}  {check.state}"
    lines = [head + (f": {cell_text(check.reason)}" if check.reason else "")]
    if check.hint and check.state != "working":
        lines.append(f"{'':24}{cell_text(check.hint)}")
    return "\n".join(lines) + "\n"
