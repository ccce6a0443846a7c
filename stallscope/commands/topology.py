"""`stallscope topology`: what hangs where, and what of it costs time; needs no lake."""

from __future__ import annotations

import argparse
import sys

from collector.engine_process import EngineProcess
from collector.names import PassingStore, StoredNames
from collector.source import Machine
from collector.topo_matrix import TopoMatrixError, parse_topo_matrix
from collector.topology_cross_check import explain_no_cross_check, find_disagreements
from collector.topology_findings import Finding, Severity, find_findings
from collector.topology_look import Knowledge, Look, read_look
from collector.topology_rows import describe_findings, describe_look
from stallscope.clock import SystemClock
from stallscope.commands.json_text import json_text
from stallscope.commands.nvidia_smi import NvidiaSmi, ask_nvidia_smi
from stallscope.commands.options import add_settings_options, load_settings
from stallscope.commands.progress import progress
from stallscope.commands.topology_text import topology_text
from stallscope.errors import StallscopeError
from stallscope.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the topology; returns 1 when something of it is worth a warning.

    Raises:
        StallscopeError: The settings are wrong, or there is nothing to see.
    """
    settings = load_settings(arguments)
    with progress("looking at the buses and asking nvidia-smi"):
        said = ask_nvidia_smi()
        look = _look(settings, said or NvidiaSmi())
    if not look.tree.devices and not look.numa_nodes:
        raise StallscopeError(
            f"{settings.host.sys}: no PCI devices and no NUMA nodes there",
            "In a container, mount the host's /sys read-only and set host.sys.",
        )
    findings = find_findings(look)
    if said is not None:
        findings += _cross_check(look, said)
    if arguments.json:
        sys.stdout.write(json_text(_as_object(look, findings)))
    else:
        sys.stdout.write(topology_text(look, findings))
    return int(any(finding.severity == Severity.WARNING for finding in findings))


def _look(settings: Settings, said: NvidiaSmi) -> Look:
    """Look at the machine, and for engines on it."""
    host, clock = settings.host, SystemClock()
    names = StoredNames(PassingStore(), clock)
    engines = EngineProcess(Machine(host.proc, host.sys, host.name, clock, names))
    try:
        engines.read()
        knowledge = Knowledge(engines.engine_processes(), said.gpus)
    finally:
        engines.close()
    return read_look(host.proc, host.sys, knowledge)


def _cross_check(look: Look, said: NvidiaSmi) -> tuple[Finding, ...]:
    """Compare with what nvidia-smi says of the same machine."""
    if not said.matrix:
        return (explain_no_cross_check("; ".join(said.problems) or "it printed no table"),)
    try:
        return find_disagreements(look, parse_topo_matrix(said.matrix))
    except TopoMatrixError as error:
        return (explain_no_cross_check(str(error)),)


def _as_object(look: Look, findings: tuple[Finding, ...]) -> dict[str, object]:
    return {
        "virtualised": look.virtualised,
        "missing": look.missing() or None,
        "nodes": describe_look(look),
        "findings": describe_findings(findings),
    }
