"""Signals of the host: disks, pressure, engine processes, clocks, and our own health."""

from __future__ import annotations

from stallscope.columns import (
    DEVICE,
    MONO,
    WALL,
    WINDOW,
    Cadence,
    Column,
    Kind,
    Metric,
    Retention,
    Role,
    Table,
    fixed,
    gauge,
)

_US = 1e-6


def _io(op: str) -> tuple[Column, ...]:
    """Return the columns of one kind of disk operation."""
    past = {"read": "reads", "write": "writes", "discard": "discards"}[op]
    return (
        gauge(past, Kind.U32, "count", f"{past.capitalize()} completed in the window."),
        gauge(f"{op}_merges", Kind.U32, "count", f"{past.capitalize()} merged in the window."),
        gauge(
            f"{op}_bytes",
            Kind.I64,
            "bytes",
            f"Bytes of the {past} completed in the window (512-byte sectors).",
        ),
        gauge(
            f"{op}_await_mean_us",
            Kind.F32,
            "us",
            f"Mean time from queueing to completion of the {past} completed in the window; "
            "NULL when none completed.",
            Metric("stallscope_nvme_latency_mean_seconds", scale=_US, labels=(("op", op),))
            if op != "discard"
            else None,
        ),
    )


BLOCK_DEVICE = Table(
    name="block_device",
    role=Role.SIGNAL,
    meaning="One row per disk and poll: work done, mean latency and queue since the poll before. "
    "Partitions and the paths of a multipath namespace are never counted beside their disk.",
    columns=(
        WALL,
        MONO,
        DEVICE,
        WINDOW,
        *_io("read"),
        *_io("write"),
        *_io("discard"),
        gauge("flushes", Kind.U32, "count", "Flushes completed; NULL before Linux 5.5."),
        gauge("flush_await_mean_us", Kind.F32, "us", "Mean time of the flushes completed."),
        gauge(
            "queue_mean",
            Kind.F32,
            "count",
            "Mean queue length: time of completed I/O over the window (iostat aqu-sz).",
            Metric("stallscope_nvme_queue_mean"),
        ),
        gauge(
            "in_flight",
            Kind.U32,
            "count",
            "I/Os in flight at the moment of the poll.",
            Metric("stallscope_nvme_io_in_flight"),
        ),
        gauge("in_flight_read", Kind.U32, "count", "Reads in flight, from sysfs inflight."),
        gauge("in_flight_write", Kind.U32, "count", "Writes in flight, from sysfs inflight."),
        gauge(
            "busy_ratio",
            Kind.F32,
            "ratio",
            "Share of the window with at least one I/O in flight, at most 1. On NVMe this is not "
            "saturation.",
        ),
        gauge(
            "busy_raw_ratio",
            Kind.F32,
            "ratio",
            "The same before the cut at 1: above 1 is an inaccuracy of the kernel's counter.",
        ),
        fixed(
            "io_stuck_candidate",
            Kind.BOOL,
            "-",
            "Nothing completed in the window although I/O is in flight.",
        ),
        gauge(
            "gap_reason",
            Kind.TEXT,
            "-",
            "Why deltas and means are NULL: first_read, counter_fell, implausible, no_time, "
            "identity_changed, disabled (queue/iostats is 0), or gone, which ends the series; NULL "
            "when they are not.",
        ),
    ),
    key=("device",),
    cadence=Cadence.LIVE,
    coarse=True,
    gauges=(
        "read_await_mean_us",
        "write_await_mean_us",
        "queue_mean",
        "in_flight",
        "busy_ratio",
    ),
    sums=("reads", "writes", "read_bytes", "write_bytes"),
)


_NO_SYSTEM_CPU_FULL = " NULL for the system: the kernel does not define it there and prints 0."


def _pressure(resource: str) -> tuple[Column, ...]:
    """Return the PSI columns of one resource."""
    return tuple(
        gauge(
            f"{resource}_{share}_ratio",
            Kind.F32,
            "ratio",
            f"Share of the window in which {who} stalled on {resource} "
            "(PSI total, not its averages)."
            + (_NO_SYSTEM_CPU_FULL if (resource, share) == ("cpu", "full") else ""),
            Metric("stallscope_pressure_ratio", labels=(("resource", resource), ("share", share))),
        )
        for share, who in (("some", "at least one task"), ("full", "every task"))
    )


HOST_PRESSURE = Table(
    name="host_pressure",
    role=Role.SIGNAL,
    meaning="One row per scope and poll: pressure stall information, memory and CPU throttling. "
    "Scope is 'system' or the path of a cgroup an engine runs in.",
    columns=(
        WALL,
        MONO,
        fixed("scope", Kind.TEXT, "-", "'system', or a cgroup path."),
        WINDOW,
        *_pressure("cpu"),
        *_pressure("memory"),
        *_pressure("io"),
        gauge("irq_full_ratio", Kind.F32, "ratio", "Share stalled on interrupts (Linux 6.1+)."),
        gauge(
            "throttled_us", Kind.I64, "us", "Time the cgroup's tasks were throttled in the window."
        ),
        gauge("throttled_periods", Kind.U32, "count", "Periods in which the cgroup was throttled."),
        gauge(
            "memory_available_bytes",
            Kind.I64,
            "bytes",
            "MemAvailable.",
            Metric("stallscope_memory_available_bytes"),
        ),
        gauge("memory_total_bytes", Kind.I64, "bytes", "MemTotal."),
        gauge("dirty_bytes", Kind.I64, "bytes", "Dirty."),
        gauge("writeback_bytes", Kind.I64, "bytes", "Writeback."),
        gauge("shmem_bytes", Kind.I64, "bytes", "Shmem."),
        gauge(
            "mlocked_bytes",
            Kind.I64,
            "bytes",
            "Mlocked; memory that a GPU driver pinned is not in it.",
        ),
        gauge("unevictable_bytes", Kind.I64, "bytes", "Unevictable."),
        gauge("hugepages_total", Kind.I64, "count", "HugePages_Total."),
        gauge("hugepages_free", Kind.I64, "count", "HugePages_Free."),
        gauge("reason", Kind.TEXT, "-", "Which parts are missing and why; NULL when none is."),
    ),
    key=("scope",),
    cadence=Cadence.LIVE,
    coarse=True,
    gauges=(
        "cpu_some_ratio",
        "memory_some_ratio",
        "memory_full_ratio",
        "io_some_ratio",
        "io_full_ratio",
        "memory_available_bytes",
    ),
    sums=("throttled_us",),
)

ENGINE_PROCESS = Table(
    name="engine_process",
    role=Role.SIGNAL,
    meaning="One row per process of an engine and poll: how long its main thread waited for a CPU, "
    "where it may run and what memory it holds.",
    columns=(
        WALL,
        MONO,
        gauge("engine", Kind.U16, "-", "Engine id where the process could be matched to one."),
        fixed("pid", Kind.U32, "-", "Process id; identity is pid and start_ticks."),
        fixed("start_ticks", Kind.I64, "ticks", "Start time, field 22 of /proc/PID/stat."),
        fixed("thread", Kind.TEXT, "-", "Name of the sampled thread (comm)."),
        WINDOW,
        gauge("run_ratio", Kind.F32, "ratio", "Share of the window on a CPU."),
        gauge(
            "run_delay_ratio",
            Kind.F32,
            "ratio",
            "Share of the window runnable but waiting for a CPU; booked when the thread gets one, "
            "so long waits land in lumps.",
            Metric("stallscope_engine_run_delay_ratio"),
        ),
        gauge("voluntary_switches", Kind.U32, "count", "Voluntary context switches in the window."),
        gauge("forced_switches", Kind.U32, "count", "Involuntary context switches in the window."),
        gauge("threads", Kind.U32, "count", "Threads of the process."),
        gauge("locked_bytes", Kind.I64, "bytes", "VmLck; CUDA-registered memory is not in it."),
        gauge("rss_anon_bytes", Kind.I64, "bytes", "RssAnon."),
        gauge("rss_shmem_bytes", Kind.I64, "bytes", "RssShmem."),
        gauge("cpus_allowed", Kind.TEXT, "-", "Cpus_allowed_list."),
        gauge("mems_allowed", Kind.TEXT, "-", "Mems_allowed_list."),
        gauge("numa_nodes", Kind.TEXT, "-", "Nodes of the CPUs it may run on, as a list."),
        gauge("reason", Kind.TEXT, "-", "Which parts are missing and why."),
    ),
    key=("pid", "thread"),
    gauges=("run_ratio", "run_delay_ratio", "rss_anon_bytes"),
)

SOURCE_HEALTH = Table(
    name="source_health",
    role=Role.SIGNAL,
    meaning="One row per source and second in which it ran: what came of it and what it cost. "
    "'storage' is the lake's writer, 'catalog' what publishes it, 'collector' the whole process.",
    columns=(
        WALL,
        MONO,
        fixed("source", Kind.TEXT, "-", "Source name."),
        fixed(
            "state",
            Kind.TEXT,
            "-",
            "working, partial, not_found, not_applicable, unsupported, disabled, restricted, gone, "
            "failed, hung or late.",
        ),
        gauge("reason", Kind.TEXT, "-", "One sentence: what exactly, and what to do."),
        fixed("reads", Kind.U32, "count", "Polls since the last row."),
        fixed("rows", Kind.U32, "count", "Rows taken since the last row."),
        fixed("rejects", Kind.U32, "count", "Input lines refused since the last row."),
        fixed("failures", Kind.U32, "count", "Polls that failed since the last row."),
        fixed("dropped", Kind.U32, "count", "Rows thrown away since the last row."),
        gauge(
            "read_mean_us",
            Kind.U32,
            "us",
            "Mean duration of a poll.",
            Metric("stallscope_collector_read_duration_seconds", scale=_US),
        ),
        gauge("read_max_us", Kind.U32, "us", "Longest poll."),
        gauge(
            "lag_us",
            Kind.U32,
            "us",
            "How late the last poll started.",
            Metric("stallscope_collector_tick_lag_seconds", scale=_US),
        ),
        gauge("cpu_us", Kind.U32, "us", "CPU time the source took since the last row."),
        gauge(
            "resident_bytes",
            Kind.I64,
            "bytes",
            "Resident memory of the collector with its children; on the rows of source "
            "'collector'.",
            Metric("stallscope_collector_resident_memory_bytes"),
        ),
    ),
    key=("source",),
    cadence=Cadence.LIVE,
    gauges=("read_mean_us", "lag_us"),
    sums=("reads", "rows", "rejects", "failures", "dropped", "cpu_us"),
)

CLOCK_EVENT = Table(
    name="clock_event",
    role=Role.SIGNAL,
    meaning="The wall clock's relation to the monotonic one: at start, at each step and when "
    "synchronisation is lost.",
    columns=(
        WALL,
        MONO,
        fixed("kind", Kind.TEXT, "-", "start, step, unsynchronised or synchronised."),
        fixed("boot_id", Kind.TEXT, "-", "The kernel's boot id."),
        fixed("wall_minus_mono_us", Kind.I64, "us", "Offset after the event."),
        gauge("step_us", Kind.I64, "us", "Size of the step, positive when time jumped ahead."),
        gauge("detail", Kind.TEXT, "-", "What a person should know about it."),
    ),
    cadence=Cadence.LIVE,
    retention=Retention.KEEP,
)

TABLES = (BLOCK_DEVICE, HOST_PRESSURE, ENGINE_PROCESS, SOURCE_HEALTH, CLOCK_EVENT)
