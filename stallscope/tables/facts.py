"""Names and facts: what the ids in the signals stand for, and what was measured or set once."""

from __future__ import annotations

from stallscope.columns import (
    DEVICE,
    ENGINE,
    WALL,
    Cadence,
    Column,
    Kind,
    Retention,
    Role,
    Table,
    fixed,
    gauge,
)


def _fact(name: str, meaning: str, *columns: Column, key: tuple[str, ...] = ()) -> Table:
    """Return a table of facts: kept for ever, the newest row of a key is the valid one."""
    return Table(
        name=name,
        role=Role.FACT,
        meaning=meaning,
        columns=(WALL, *columns),
        key=key,
        cadence=Cadence.LIVE,
        retention=Retention.KEEP,
    )


ENGINE_NAME = _fact(
    "engine",
    "What an engine id stands for; ids are never reused.",
    ENGINE,
    fixed("host", Kind.TEXT, "-", "Host name as set, else the node's name, else the hostname."),
    fixed("endpoint", Kind.TEXT, "-", "Address of its metrics page."),
    fixed(
        "rank", Kind.TEXT, "-", "Data-parallel rank as the engine spells it; '' when it has none."
    ),
    fixed("model", Kind.TEXT, "-", "Served model name; '' when the engine names none."),
    fixed("name", Kind.TEXT, "-", "Short name for people."),
    fixed("kind", Kind.TEXT, "-", "vllm, sglang, tgi, llamacpp, trtllm, triton or unknown."),
    gauge("config_hash", Kind.TEXT, "-", "Hash of its configuration labels."),
    gauge("version", Kind.TEXT, "-", "Engine version where it tells."),
    key=("engine",),
)

DEVICE_NAME = _fact(
    "device",
    "What a device id stands for; ids are never reused.",
    DEVICE,
    fixed("kind", Kind.TEXT, "-", "disk, gpu or bridge."),
    fixed(
        "name",
        Kind.TEXT,
        "-",
        "nvme0n1, a device-mapper name, the GPU's UUID or the bridge's PCI address.",
    ),
    gauge("role", Kind.TEXT, "-", "nvme, dm, md, disk or virtual; gpu or mig; uplink."),
    gauge("model", Kind.TEXT, "-", "Model."),
    gauge("serial_hash", Kind.TEXT, "-", "Hash of the serial number; the number is never stored."),
    gauge("firmware", Kind.TEXT, "-", "Firmware revision."),
    gauge("pci_address", Kind.TEXT, "-", "PCI address, lower case with domain."),
    gauge("numa_node", Kind.I16, "-", "NUMA node; NULL when the kernel does not know."),
    gauge("queue_requests", Kind.U32, "count", "queue/nr_requests."),
    gauge("scheduler", Kind.TEXT, "-", "I/O scheduler in use."),
    gauge("block_bytes", Kind.U32, "bytes", "Logical block size."),
    gauge("counted", Kind.BOOL, "-", "In totals; false for a device whose members are counted."),
    gauge("gpu_index", Kind.U8, "-", "Index of the GPU by NVML; it may change at boot.", since=2),
    gauge("driver", Kind.TEXT, "-", "Driver version of a GPU.", since=2),
    key=("device",),
)

REQUEST_NAME = _fact(
    "request_name",
    "What a request id stands for.",
    fixed("request", Kind.U32, "-", "Request id."),
    fixed("name", Kind.TEXT, "-", "Hash of the engine's request id, or the id itself if allowed."),
    key=("request",),
)

ENGINE_CONFIG = _fact(
    "engine_config",
    "Settings of an engine, one row per setting; only an allow-list of flags is stored.",
    ENGINE,
    fixed("name", Kind.TEXT, "-", "Setting."),
    gauge("value", Kind.TEXT, "-", "Its value."),
    key=("engine", "name"),
)

STORAGE_MOUNT = _fact(
    "storage_mount",
    "Which device a directory of interest lies on.",
    fixed("path", Kind.TEXT, "-", "Directory."),
    gauge("device", Kind.U16, "-", "Device; NULL for a network or overlay file system."),
    gauge("file_system", Kind.TEXT, "-", "File system type."),
    gauge("reason", Kind.TEXT, "-", "Why device is NULL."),
    key=("path",),
)

TOPOLOGY = _fact(
    "topology",
    "What hangs where, one row per node; all rows of one look at the machine share their "
    "wall_us, and only the newest look is valid.",
    fixed("address", Kind.TEXT, "-", "PCI address, node0 for a NUMA node, pid 42 for a process."),
    gauge(
        "parent",
        Kind.TEXT,
        "-",
        "Address of the bridge above; of the GPU that a process uses; of the NUMA node of a root.",
    ),
    fixed("kind", Kind.TEXT, "-", "numa, root, bridge, gpu, nvme, nic or process."),
    gauge("device", Kind.U16, "-", "Device id where it has one."),
    gauge("numa_node", Kind.I16, "-", "NUMA node; NULL when unknown."),
    gauge("link_generation", Kind.U8, "-", "Current generation."),
    gauge("link_width", Kind.U8, "lanes", "Current width."),
    gauge("max_link_generation", Kind.U8, "-", "Highest generation."),
    gauge("max_link_width", Kind.U8, "lanes", "Full width."),
    gauge("name", Kind.TEXT, "-", "nvme0, mlx5_0, a GPU's UUID or an engine's role.", since=2),
    gauge("cpus", Kind.TEXT, "-", "CPUs near it, or that a process may use.", since=2),
    gauge("memory_nodes", Kind.TEXT, "-", "NUMA nodes a process may use memory of.", since=2),
    gauge("virtualised", Kind.BOOL, "-", "The machine is a guest: the tree is fiction.", since=2),
    key=("address",),
)

TOPOLOGY_FINDING = _fact(
    "topology_finding",
    "What a look at the topology showed, in words; rows share the wall_us of their look.",
    fixed(
        "rule",
        Kind.TEXT,
        "-",
        "shared_uplink, numa_mismatch, narrow_link, narrow_path, virtualised or cross_check.",
    ),
    fixed("subject", Kind.TEXT, "-", "Address it is about."),
    fixed("severity", Kind.TEXT, "-", "warning or info."),
    fixed("text", Kind.TEXT, "-", "One sentence for people."),
    key=("rule", "subject"),
)

LINK_CEILING = _fact(
    "link_ceiling",
    "What a GPU's host link can achieve, learned or measured.",
    DEVICE,
    fixed("direction", Kind.TEXT, "-", "rx or tx."),
    fixed("kind", Kind.TEXT, "-", "learned or calibrated."),
    fixed("bytes_per_second", Kind.F64, "bytes/s", "Achievable rate."),
    gauge("link_generation", Kind.U8, "-", "Generation it holds for."),
    gauge("link_width", Kind.U8, "lanes", "Width it holds for."),
    gauge("driver", Kind.TEXT, "-", "Driver version it was measured with."),
    gauge(
        "together_bytes_per_second",
        Kind.F64,
        "bytes/s",
        "Achievable rate while the other direction is busy as well.",
        since=2,
    ),
    gauge("tool", Kind.TEXT, "-", "nvbandwidth, torch or cupy, with its version.", since=2),
    key=("device", "direction", "kind", "link_generation", "link_width"),
)

PROBE_RESULT = _fact(
    "probe_result",
    "What a probe of the machine found: which ways of measuring work here.",
    fixed("probe", Kind.TEXT, "-", "Probe name."),
    gauge("device", Kind.U16, "-", "Device it concerns."),
    fixed("outcome", Kind.TEXT, "-", "works, or the reason why not."),
    gauge("cost_us", Kind.U32, "us", "Cost of one call."),
    key=("probe", "device"),
)

SLO = _fact(
    "slo",
    "Objectives in force.",
    fixed("name", Kind.TEXT, "-", "Name."),
    gauge("route", Kind.TEXT, "-", "Model route; NULL for all."),
    gauge("context_class", Kind.TEXT, "-", "Context-length class; NULL for all."),
    fixed("quantity", Kind.TEXT, "-", "ttft, itl or e2e."),
    fixed("quantile", Kind.F32, "ratio", "Which quantile is held."),
    fixed("limit_us", Kind.I64, "us", "The value it must stay under."),
    fixed("objective_ratio", Kind.F32, "ratio", "Share of time it must hold."),
    fixed("window_days", Kind.U16, "days", "Over which window."),
    key=("name",),
)

NOTE = _fact(
    "note",
    "What people wrote down.",
    fixed("text", Kind.TEXT, "-", "The note."),
    gauge("author", Kind.TEXT, "-", "Who wrote it."),
    gauge("episode", Kind.TEXT, "-", "Episode it belongs to."),
)

RUN = _fact(
    "run",
    "One benchmark run.",
    fixed("run", Kind.TEXT, "-", "Run id: hash of its file."),
    fixed("tool", Kind.TEXT, "-", "Which tool wrote it."),
    gauge("started_wall_us", Kind.I64, "us", "When it began, where the file tells."),
    gauge("model", Kind.TEXT, "-", "Model."),
    gauge("variant", Kind.TEXT, "-", "Offload variant."),
    gauge("context_tokens", Kind.U32, "tokens", "Prompt length."),
    gauge("concurrency", Kind.U32, "count", "Maximum requests at once."),
    gauge("request_rate", Kind.F64, "1/s", "Arrivals; NULL for unbounded."),
    gauge("completed", Kind.U32, "count", "Requests completed."),
    gauge("failed", Kind.U32, "count", "Requests failed."),
    gauge("duration_us", Kind.I64, "us", "Duration."),
    gauge("flags", Kind.TEXT, "-", "Contradictions inside the file."),
    key=("run",),
)

RUN_REQUEST = _fact(
    "run_request",
    "One request of a benchmark run.",
    fixed("run", Kind.TEXT, "-", "Run id."),
    fixed("request_index", Kind.U32, "-", "Position in the file."),
    gauge("prompt_tokens", Kind.U32, "tokens", "Prompt length."),
    gauge("output_tokens", Kind.U32, "tokens", "Answer length."),
    gauge("ttft_us", Kind.I64, "us", "Time to first token."),
    gauge("e2e_us", Kind.I64, "us", "End to end."),
    gauge("start_mono_us", Kind.I64, "us", "Start on the tool's monotonic clock."),
    gauge("error", Kind.TEXT, "-", "Why it failed."),
    key=("run", "request_index"),
)

TABLES = (
    ENGINE_NAME,
    DEVICE_NAME,
    REQUEST_NAME,
    ENGINE_CONFIG,
    STORAGE_MOUNT,
    TOPOLOGY,
    TOPOLOGY_FINDING,
    LINK_CEILING,
    PROBE_RESULT,
    SLO,
    NOTE,
    RUN,
    RUN_REQUEST,
)
