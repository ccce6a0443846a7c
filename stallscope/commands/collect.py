"""`stallscope collect`: read every source into the lake until stopped, or once to the screen."""

from __future__ import annotations

import argparse
import sys

from analytics.catalog import library_statements
from collector import runner
from collector.single_reading import SourceReport
from stallscope.commands.checks import exit_status
from stallscope.commands.json_text import json_text
from stallscope.commands.options import add_settings_options, load_settings
from stallscope.commands.stopping import follow_supervisor, stop_on_signals
from stallscope.commands.text_table import text_table
from stallscope.errors import StallscopeError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--once", action="store_true", help="read every source once, write nothing")
    parser.add_argument("--json", action="store_true", help="with --once: rows and all as JSON")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Collect; returns the exit status.

    Raises:
        StallscopeError: The settings are wrong or the lake cannot be written.
    """
    if arguments.json and not arguments.once:
        raise StallscopeError("--json needs --once", "stallscope collect --once --json")
    if arguments.once:
        return _show(runner.read_once(load_settings(arguments)), as_json=arguments.json)
    follow_supervisor()
    stop = stop_on_signals()
    return runner.run(load_settings(arguments), library_statements(), stop)


def _show(reports: list[SourceReport], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json_text([_as_object(report) for report in reports]))
    else:
        rows = [
            (
                report.source,
                report.state.value,
                sum(map(len, report.rows.values())),
                report.reason or "-",
            )
            for report in reports
        ]
        sys.stdout.write(text_table(("source", "state", "rows", "reason"), rows))
    return exit_status(report.state.value for report in reports)


def _as_object(report: SourceReport) -> dict[str, object]:
    return {
        "source": report.source,
        "state": report.state.value,
        "reason": report.reason,
        "hint": report.hint,
        "rows": report.rows,
    }
