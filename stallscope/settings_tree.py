"""The tree of settings: every one with its default, its meaning and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stallscope.settings_fields import EngineTarget, Setting, declared, describe, describe_port


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """The folder with all measurements, and how long they stay."""

    path: Path = field(
        metadata=describe(
            "Folder of the lake.",
            computed="as a service /var/lib/stallscope, else ~/.local/state/stallscope",
            example="/var/lib/stallscope",
        )
    )
    fsync: bool = field(
        default=False,
        metadata=describe(
            "Force the journal to the disk ten times a second. Matters for a power cut only: what "
            "was acknowledged survives a killed collector either way.",
        ),
    )
    raw_hours: int = field(
        default=24,
        metadata=describe(
            "Hours that raw rows are kept.",
            low=1,
            high=87_600,
        ),
    )
    raw_bytes: int = field(
        default=10_000_000_000,
        metadata=describe(
            "Bytes that raw rows may take; the oldest go first.",
            low=10_000_000,
        ),
    )
    rollup_days: int = field(
        default=30,
        metadata=describe(
            "Days that rollups (histograms, minute gauges) are kept.",
            low=1,
            high=3_650,
        ),
    )


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Which host this is and where its kernel files are mounted."""

    name: str = field(
        metadata=describe(
            "Name of this host in tables and labels.",
            computed="NODE_NAME or K8S_NODE_NAME of the environment, else the host name",
            example="gpu-host-1",
        )
    )
    proc: Path = field(
        default=Path("/proc"),
        metadata=describe(
            "Root of the proc file system; /host/proc in a container.",
        ),
    )
    sys: Path = field(
        default=Path("/sys"),
        metadata=describe(
            "Root of the sys file system; /host/sys in a container.",
        ),
    )


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """The collector's own listener: /metrics, /healthz, /readyz."""

    listen_address: str = field(
        default="127.0.0.1",
        metadata=describe(
            "Address to listen on. Any other than loopback needs a token.",
        ),
    )
    listen_port: int = field(default=9871, metadata=describe_port("Port to listen on."))
    token: str | None = field(
        default=None,
        metadata=describe(
            "Bearer token that requests must carry. Better set in the environment than here.",
            secret=True,
            example="a-long-random-text",
        ),
    )


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """How engines are found that nobody configured."""

    enabled: bool = field(
        default=True,
        metadata=describe(
            "Probe local ports for engines when no engine is configured.",
        ),
    )
    ports: tuple[int, ...] = field(
        default=(8000, 8001, 8002, 8003, 8080, 30000, 3000, 9000),
        metadata=describe_port(
            "Loopback ports to probe: vLLM (and Triton at 8002), llama.cpp and TGI, SGLang.",
        ),
    )


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How often each source is read."""

    block_interval_ms: int = field(
        default=100,
        metadata=describe(
            "Disks: milliseconds between readings.",
            low=20,
            high=60_000,
        ),
    )
    host_interval_ms: int = field(
        default=100,
        metadata=describe(
            "Pressure and memory: milliseconds between readings.",
            low=20,
            high=60_000,
        ),
    )
    scrape_interval_ms: int = field(
        default=1_000,
        metadata=describe(
            "Engine metrics: milliseconds between scrapes. One costs the engine 4 to 16 ms.",
            low=100,
            high=300_000,
        ),
    )
    tapped_scrape_interval_ms: int = field(
        default=10_000,
        metadata=describe(
            "Engine metrics of an engine whose tap tells of every step: milliseconds between "
            "scrapes.",
            low=100,
            high=300_000,
        ),
    )
    process_interval_ms: int = field(
        default=1_000,
        metadata=describe(
            "Processes of the engines: milliseconds between readings.",
            low=100,
            high=300_000,
        ),
    )
    gpu_interval_ms: int = field(
        default=1_000,
        metadata=describe(
            "GPUs: milliseconds between readings of link and state; longer while the driver is "
            "slow.",
            low=200,
            high=60_000,
        ),
    )
    include_virtual_disks: bool = field(
        default=False,
        metadata=describe(
            "Read loop, ram and zram devices too.",
        ),
    )


@dataclass(frozen=True, slots=True)
class TapSettings:
    """Taps inside the engines: each step, each chunk of each answer."""

    socket: Path = field(
        metadata=describe(
            "Socket at which they deliver; they look in the same places.",
            computed="STALLSCOPE_TAP_SOCKET of the environment, else /run/stallscope/tap.sock "
            "where that can be written, else stallscope/tap.sock under XDG_RUNTIME_DIR",
            example="/run/stallscope/tap.sock",
        )
    )
    enabled: bool = field(
        default=True,
        metadata=describe(
            "Listen for what taps send.",
        ),
    )
    group: str | None = field(
        default=None,
        metadata=describe(
            "Group whose members may deliver, for engines that run as another user.",
            example="inference",
        ),
    )
    store_request_ids: bool = field(
        default=False,
        metadata=describe(
            "Store the engine's request ids as they are; else their hashes.",
        ),
    )


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """OpenTelemetry: spans that engines send here, and our own metrics sent elsewhere."""

    http_enabled: bool = field(
        default=False,
        metadata=describe(
            "Take spans by HTTP, in protobuf or JSON. Needs the install extra otlp, which is part "
            "of all.",
        ),
    )
    http_port: int = field(default=4318, metadata=describe_port("Port for spans by HTTP."))
    grpc_enabled: bool = field(
        default=False,
        metadata=describe(
            "Take spans by gRPC, as vLLM sends them by default. Needs the install extra otlp-grpc.",
        ),
    )
    grpc_port: int = field(default=4317, metadata=describe_port("Port for spans by gRPC."))
    listen_address: str = field(
        default="127.0.0.1",
        metadata=describe(
            "Address to take spans on. Any other than loopback needs collect.token, which senders "
            "must then show.",
        ),
    )
    export_endpoint: str | None = field(
        default=None,
        metadata=describe(
            "Where to send our own metrics every ten seconds, by OTLP over HTTP; /v1/metrics is "
            "added where no path is given. Needs the install extra otlp.",
            example="http://otel-collector:4318",
        ),
    )
    export_headers: str | None = field(
        default=None,
        metadata=describe(
            "Headers to send with them. Better set in the environment than here.",
            secret=True,
            example="authorization=Bearer a-long-random-text",
        ),
    )


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Where the pages are served."""

    address: str = field(
        default="127.0.0.1",
        metadata=describe(
            "Loopback address to serve on; from elsewhere use SSH or a proxy with sign-in.",
        ),
    )
    port: int = field(default=8501, metadata=describe_port("Port to serve on."))


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """Limits of one query of `stallscope sql` or of the SQL page."""

    memory_mb: int = field(
        default=512,
        metadata=describe(
            "Megabytes of memory.",
            low=64,
            high=65_536,
        ),
    )
    timeout_s: int = field(
        default=60,
        metadata=describe(
            "Seconds until it is stopped.",
            low=1,
            high=86_400,
        ),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    lake: LakeSettings
    host: HostSettings
    taps: TapSettings
    collect: CollectSettings = field(default_factory=CollectSettings)
    engines: tuple[EngineTarget, ...] = field(
        default=(),
        metadata=describe(
            "Engines to read, each with a name and a url. Empty: found by discovery.",
        ),
    )
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    sources: SourceSettings = field(default_factory=SourceSettings)
    otlp: OtlpSettings = field(default_factory=OtlpSettings)
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)


SECTIONS: Mapping[str, type] = {
    "lake": LakeSettings,
    "host": HostSettings,
    "collect": CollectSettings,
    "discovery": DiscoverySettings,
    "sources": SourceSettings,
    "taps": TapSettings,
    "otlp": OtlpSettings,
    "dashboard": DashboardSettings,
    "sql": SqlSettings,
}
"""The sections of a settings file."""

DECLARED: Mapping[str, Setting] = {setting.key: setting for setting in declared(Settings)}
"""Every setting by its dotted name, in the order of the tree."""
