"""What to do about the state of a source, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from collector.source import State

_BY_STATE: Mapping[State, str] = {
    State.WORKING: "Nothing to do.",
    State.PARTIAL: "The rest is measured; see the reason for what is missing.",
    State.NOT_FOUND: "Nothing to do unless this machine should have it.",
    State.NOT_APPLICABLE: "Nothing to do: it does not exist on this kind of machine.",
    State.UNSUPPORTED: "This kernel, driver or engine version does not offer it; a newer one may.",
    State.DISABLED: "Switch it on where the reason says, if you want it measured.",
    State.RESTRICTED: "Give the collector read access to what the reason names.",
    State.GONE: "It was there before: see whether it was removed or has stopped.",
    State.FAILED: "It is tried again by itself; if it stays so, report the reason as a bug.",
    State.HUNG: "The kernel, driver or engine does not answer; its poll is left waiting.",
    State.LATE: "The host has too little CPU time left, or the interval is set too short.",
}

_BY_SOURCE: Mapping[tuple[str, State], str] = {
    ("block_device", State.NOT_FOUND): "In a container, mount the host's /proc and /sys read-only "
    "and set host.proc and host.sys; virtual disks need sources.include_virtual_disks.",
    ("block_device", State.RESTRICTED): "Let the collector read /proc/diskstats; in a container, "
    "mount the host's /proc read-only and set host.proc.",
    ("host_pressure", State.DISABLED): "Boot the kernel with psi=1.",
    ("host_pressure", State.UNSUPPORTED): "Pressure stall information needs Linux 4.20 or newer "
    "with CONFIG_PSI; some distributions want psi=1 on the kernel command line.",
    ("engine_metrics", State.NOT_FOUND): "Start the engine, or name its address: "
    "--engine NAME=http://127.0.0.1:8000, or [[engines]] in the settings file.",
    ("engine_metrics", State.FAILED): "Open the engine's /metrics address with curl: it must "
    "answer 200 with Prometheus text.",
    ("engine_metrics", State.GONE): "See whether the engine still runs and listens where it did.",
    ("engine_process", State.NOT_FOUND): "Start the engine; if it runs in another container, share "
    "the host's process namespace (hostPID) and set host.proc.",
    ("engine_process", State.RESTRICTED): "Run the collector as the engine's user, or without "
    "hidepid on /proc.",
    ("storage", State.FAILED): "Free space on the lake's disk or make it writable; rows that could "
    "not be written are counted as dropped.",
}


def hint_for(source: str, state: State) -> str:
    """Return one sentence on what to do about a source in a state.

    Args:
        source: Name of the source.
        state: Its state.
    """
    return _BY_SOURCE.get((source, state), _BY_STATE[state])
