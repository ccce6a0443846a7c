"""`stallscope up`: collect and dashboard together, kept running until stopped."""

from __future__ import annotations

import argparse
import sys

from stallscope.commands.dashboard import HEALTH
from stallscope.commands.options import (
    add_settings_options,
    forwarded,
    load_settings,
    settings_file,
)
from stallscope.commands.stopping import stop_on_signals
from stallscope.ports import url_of
from stallscope.settings import Settings
from stallscope.supervisor import Program, Supervisor


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Supervise until a signal; returns the exit status.

    Raises:
        SettingsError: The settings are wrong.
    """
    settings = load_settings(arguments)
    stop = stop_on_signals()
    supervisor = Supervisor(programs(settings, forwarded(arguments)), sys.stdout.buffer)
    file = settings_file(arguments)
    supervisor.say(f"lake      {settings.lake.path}")
    supervisor.say(f"settings  {file or 'defaults and environment'}")
    return supervisor.run(stop)


def programs(settings: Settings, options: list[str]) -> list[Program]:
    """Return what is supervised, in the order of starting."""
    collect, pages = settings.collect, settings.dashboard
    return [
        Program(
            name="collect",
            command=_command("collect", options),
            address=collect.listen_address,
            port=collect.listen_port,
            health="/healthz",
            announcement=f"metrics   {url_of(collect.listen_address, collect.listen_port)}/metrics",
            setting="collect.listen_port",
            needs_port=False,
        ),
        Program(
            name="dashboard",
            command=_command("dashboard", options),
            address=pages.address,
            port=pages.port,
            health=HEALTH,
            announcement=f"open      {url_of(pages.address, pages.port)}",
            setting="dashboard.port",
            needs_port=True,
        ),
    ]


def _command(name: str, options: list[str]) -> tuple[str, ...]:
    # -P: a file of the working directory must not pass for one of our packages.
    return (sys.executable, "-P", "-m", "stallscope.cli", name, *options)
