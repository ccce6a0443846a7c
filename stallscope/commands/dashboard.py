"""`stallscope dashboard`: becomes the Streamlit server of the pages."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from stallscope.commands.messages import tell
from stallscope.commands.options import add_settings_options, as_environment, load_settings
from stallscope.commands.stopping import follow_supervisor
from stallscope.errors import StallscopeError
from stallscope.ports import url_of, why_not_free
from stallscope.settings import DashboardSettings

HEALTH = "/_stcore/health"
"""Path that a Streamlit server answers when it is up."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replace this process by the server; returns only when that fails.

    Raises:
        StallscopeError: The settings are wrong, Streamlit is missing or the port is taken.
    """
    follow_supervisor()
    place = load_settings(arguments).dashboard
    command = command_line(place)
    taken = why_not_free(place.address, place.port)
    if taken:
        raise StallscopeError(
            f"The dashboard is not started: {taken}",
            f"Choose another: --set dashboard.port={place.port + 1}",
        )
    tell(f"dashboard at {url_of(place.address, place.port)}")
    sys.stderr.flush()
    os.execve(command[0], command, {**os.environ, **as_environment(arguments)})  # noqa: S606


def command_line(place: DashboardSettings) -> list[str]:
    """Return the command of the server.

    Flags repeat what must hold whatever a person's own ~/.streamlit says; the rest is in the
    config.toml beside app.py.

    Raises:
        StallscopeError: Streamlit or the pages are not installed.
    """
    app = _app()
    if find_spec("streamlit") is None or app is None:
        raise StallscopeError(
            "The dashboard is not installed", "Run: pip install '.[dashboard]' in a checkout"
        )
    return [
        # -P: a file of the working directory must not pass for one of our packages.
        sys.executable,
        "-P",
        "-m",
        "streamlit",
        "run",
        str(app),
        f"--server.address={place.address}",
        f"--server.port={place.port}",
        "--server.headless=true",
        "--server.fileWatcherType=none",
        "--server.runOnSave=false",
        "--browser.gatherUsageStats=false",
        "--client.toolbarMode=minimal",
    ]


def _app() -> Path | None:
    spec = find_spec("dashboard")
    if spec is None or spec.origin is None:
        return None
    app = Path(spec.origin).with_name("app.py")
    return app if app.is_file() else None
