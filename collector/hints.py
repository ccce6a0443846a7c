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

_NO_DEVICE = (
    "Give the collector access to /dev/nvidiactl and /dev/nvidia*; where a container had it "
    "before, restart the container."
)
_LET_GO = "Nothing to do: it takes hold of the driver again by itself."

_TAP_HINTS: Mapping[State, str] = {
    State.NOT_FOUND: "Install the tap beside vLLM (collector/taps/vllm, pip install --no-deps) and "
    "let both see one socket: taps.socket here, STALLSCOPE_TAP_SOCKET there.",
    State.RESTRICTED: "Let the collector write the socket's folder, or name another with "
    "taps.socket; two collectors on one host need a socket each.",
    State.DISABLED: "Set taps.enabled if you want each step and each token measured.",
    State.NOT_APPLICABLE: "Nothing to do: see what the running collector says of it.",
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
    ("topology", State.NOT_FOUND): "In a container, mount the host's /sys read-only and set "
    "host.sys.",
    ("gpu_link", State.RESTRICTED): _NO_DEVICE,
    ("gpu_state", State.RESTRICTED): _NO_DEVICE,
    ("gpu_link", State.DISABLED): _LET_GO,
    ("gpu_state", State.DISABLED): _LET_GO,
    **{
        (source, state): hint
        for source in ("engine_steps", "token_gaps")
        for state, hint in _TAP_HINTS.items()
    },
    ("otlp_traces", State.DISABLED): "Set otlp.http_enabled (or otlp.grpc_enabled), and start vLLM "
    "with --otlp-traces-endpoint, if you want requests by their traces.",
    (
        "otlp_traces",
        State.NOT_FOUND,
    ): "Start vLLM with --otlp-traces-endpoint; by HTTP it also needs "
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf. It says nothing when spans do not arrive.",
    ("otlp_traces", State.UNSUPPORTED): "Install what the reason names.",
    ("otlp_traces", State.FAILED): "Free the port, or choose another in the settings.",
    ("otlp_export", State.FAILED): "See whether otlp.export_endpoint takes OTLP over HTTP; it is "
    "tried again by itself.",
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
