"""Signals of the GPUs: what their host links carry, and the state they are in."""

from __future__ import annotations

from dataclasses import replace

from stallscope.columns import (
    DEVICE,
    MONO,
    WALL,
    WINDOW,
    Cadence,
    Column,
    Kind,
    Metric,
    Role,
    Table,
    gauge,
)

_H2D = (("direction", "rx"),)
_D2H = (("direction", "tx"),)
_BYTES_TOTAL = "stallscope_pcie_bytes_total"
_THROUGHPUT = "stallscope_pcie_throughput_bytes_per_second"
_CEILING = "stallscope_pcie_link_ceiling_bytes_per_second"
_SATURATION = "stallscope_pcie_saturation_ratio"
_RAW = "stallscope_pcie_raw_ratio"
_UPLINK_SATURATION = "stallscope_pcie_uplink_saturation_ratio"
_MEMORY = "stallscope_gpu_memory_bytes"
_CALL = "stallscope_gpu_call_seconds"


def _state(since: int) -> Column:
    return gauge(
        "state",
        Kind.TEXT,
        "-",
        "ok, unsupported, no_permission, gpu_lost, hung, stale, source_broken, not_applicable or "
        "not_trustworthy.",
        since=since,
    )


def _call_us(source: str) -> Column:
    return gauge(
        "call_us",
        Kind.U32,
        "us",
        "Time spent in the driver's calls for this row.",
        Metric(_CALL, scale=1e-6, labels=(("source", source),)),
        since=2,
    )


GPU_LINK = Table(
    name="gpu_link",
    role=Role.SIGNAL,
    meaning="One row per GPU and poll: what its host link carried, against what it can carry. "
    "rx = to the GPU (H2D, load), tx = from the GPU (D2H, store).",
    columns=(
        WALL,
        MONO,
        DEVICE,
        replace(WINDOW, metric=Metric("stallscope_pcie_window_seconds", scale=1e-6)),
        _state(since=2),
        gauge(
            "rx_bytes",
            Kind.I64,
            "bytes",
            "Bytes received by the GPU; true counters only.",
            Metric(_BYTES_TOTAL, kind="counter", labels=_H2D, otel="hw.gpu.io"),
        ),
        gauge(
            "tx_bytes",
            Kind.I64,
            "bytes",
            "Bytes sent by the GPU; true counters only.",
            Metric(_BYTES_TOTAL, kind="counter", labels=_D2H, otel="hw.gpu.io"),
        ),
        gauge(
            "rx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Mean H2D rate.",
            Metric(_THROUGHPUT, labels=_H2D, otel="hw.gpu.pcie.throughput"),
        ),
        gauge(
            "tx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Mean D2H rate.",
            Metric(_THROUGHPUT, labels=_D2H, otel="hw.gpu.pcie.throughput"),
        ),
        gauge(
            "rx_saturation_ratio",
            Kind.F32,
            "ratio",
            "H2D rate over the achievable ceiling, at most 1.",
            Metric(_SATURATION, labels=_H2D),
        ),
        gauge(
            "tx_saturation_ratio",
            Kind.F32,
            "ratio",
            "D2H rate over the achievable ceiling, at most 1.",
            Metric(_SATURATION, labels=_D2H),
        ),
        gauge(
            "rx_raw_ratio",
            Kind.F32,
            "ratio",
            "H2D rate over the theoretical link rate.",
            Metric(_RAW, labels=_H2D),
        ),
        gauge(
            "tx_raw_ratio",
            Kind.F32,
            "ratio",
            "D2H rate over the theoretical link rate.",
            Metric(_RAW, labels=_D2H),
        ),
        gauge(
            "rx_ceiling_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "What the link can achieve H2D.",
            Metric(_CEILING, labels=_H2D),
            since=2,
        ),
        gauge(
            "tx_ceiling_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "What the link can achieve D2H.",
            Metric(_CEILING, labels=_D2H),
            since=2,
        ),
        gauge(
            "coverage_ratio",
            Kind.F32,
            "ratio",
            "Share of the window that was measured.",
            Metric("stallscope_pcie_coverage_ratio"),
        ),
        gauge("method", Kind.TEXT, "-", "gpm_cumulative, gpm_rate, field_counter or throughput."),
        Column(
            "rx_ceiling_kind",
            Kind.TEXT,
            "-",
            "Where the H2D ceiling comes from: default, learned or calibrated.",
            was=((1, "ceiling_kind"),),
        ),
        gauge(
            "tx_ceiling_kind",
            Kind.TEXT,
            "-",
            "Where the D2H ceiling comes from: default, learned or calibrated.",
            since=2,
        ),
        gauge("link_generation", Kind.U8, "-", "Current PCIe generation."),
        gauge("link_width", Kind.U8, "lanes", "Current PCIe width."),
        gauge(
            "max_link_generation",
            Kind.U8,
            "-",
            "Highest generation of card and slot together.",
            since=2,
        ),
        gauge(
            "max_link_width",
            Kind.U8,
            "lanes",
            "Full width of card and slot together; not trusted on cards wired narrower.",
            since=2,
        ),
        gauge("both_busy", Kind.BOOL, "-", "Both directions were above 60 % of their ceilings."),
        gauge(
            "link_downtrained",
            Kind.BOOL,
            "-",
            "Slower or narrower than possible, under load; NULL while the link is idle.",
            Metric("stallscope_pcie_link_downtrained"),
        ),
        _call_us("gpu_link"),
        gauge("reason", Kind.TEXT, "-", "Why rates are NULL."),
    ),
    key=("device",),
    cadence=Cadence.LIVE,
    gauges=(
        "rx_window_mean_bytes_per_second",
        "tx_window_mean_bytes_per_second",
        "rx_saturation_ratio",
        "tx_saturation_ratio",
    ),
    sums=("rx_bytes", "tx_bytes"),
)

PCIE_UPLINK = Table(
    name="pcie_uplink",
    role=Role.SIGNAL,
    meaning="One row per bridge that several GPUs share and poll: the sum of what they carried "
    "against what the bridge's own uplink can carry. NVMe and NIC traffic is not in it.",
    columns=(
        WALL,
        MONO,
        DEVICE,
        WINDOW,
        gauge("gpus", Kind.U8, "count", "GPUs below the bridge."),
        gauge("gpus_measured", Kind.U8, "count", "GPUs whose rate is in the sums."),
        gauge(
            "rx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Sum of the GPUs' mean H2D rates; NULL unless all were measured.",
        ),
        gauge(
            "tx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Sum of the GPUs' mean D2H rates; NULL unless all were measured.",
        ),
        gauge(
            "rx_saturation_ratio",
            Kind.F32,
            "ratio",
            "H2D sum over the achievable ceiling of the uplink, at most 1.",
            Metric(_UPLINK_SATURATION, labels=_H2D),
        ),
        gauge(
            "tx_saturation_ratio",
            Kind.F32,
            "ratio",
            "D2H sum over the achievable ceiling of the uplink, at most 1.",
            Metric(_UPLINK_SATURATION, labels=_D2H),
        ),
        gauge("ceiling_bytes_per_second", Kind.F32, "bytes/s", "The uplink's ceiling."),
        gauge("link_generation", Kind.U8, "-", "Current generation of the uplink."),
        gauge("link_width", Kind.U8, "lanes", "Current width of the uplink."),
        gauge("reason", Kind.TEXT, "-", "Why sums or ratios are NULL."),
    ),
    key=("device",),
    cadence=Cadence.LIVE,
    gauges=("rx_saturation_ratio", "tx_saturation_ratio"),
)

GPU_STATE = Table(
    name="gpu_state",
    role=Role.SIGNAL,
    meaning="One row per GPU and poll: clocks, throttling, power, temperature, memory, errors.",
    columns=(
        WALL,
        MONO,
        DEVICE,
        WINDOW,
        _state(since=2),
        gauge(
            "sm_clock_mhz",
            Kind.U32,
            "MHz",
            "SM clock.",
            Metric("stallscope_gpu_sm_clock_hertz", scale=1e6),
        ),
        gauge("sm_clock_max_mhz", Kind.U32, "MHz", "Highest SM clock of this GPU.", since=2),
        gauge("memory_clock_mhz", Kind.U32, "MHz", "Memory clock."),
        gauge(
            "throttle_reasons",
            Kind.I64,
            "-",
            "NVML bit mask of clock event reasons; macro throttle_words() names them.",
        ),
        gauge(
            "power_watts",
            Kind.F32,
            "W",
            "Power drawn.",
            Metric("stallscope_gpu_power_watts", otel="hw.power"),
        ),
        gauge("power_limit_watts", Kind.F32, "W", "Power limit in force.", since=2),
        gauge(
            "temperature_celsius",
            Kind.F32,
            "celsius",
            "GPU temperature.",
            Metric("stallscope_gpu_temperature_celsius", otel="hw.temperature"),
        ),
        gauge(
            "memory_used_bytes",
            Kind.I64,
            "bytes",
            "Memory in use, without what the driver reserves where NVML tells them apart.",
            Metric(_MEMORY, labels=(("state", "used"),), otel="hw.gpu.memory.usage"),
        ),
        gauge(
            "memory_reserved_bytes",
            Kind.I64,
            "bytes",
            "Memory that the driver keeps for itself.",
            Metric(_MEMORY, labels=(("state", "reserved"),)),
            since=2,
        ),
        gauge(
            "memory_total_bytes",
            Kind.I64,
            "bytes",
            "Memory of the GPU.",
            Metric("stallscope_gpu_memory_limit_bytes", otel="hw.gpu.memory.limit"),
        ),
        gauge(
            "utilisation_ratio",
            Kind.F32,
            "ratio",
            "Share of time with a kernel running.",
            Metric("stallscope_gpu_utilisation_ratio", otel="hw.gpu.utilization"),
        ),
        gauge(
            "memory_utilisation_ratio",
            Kind.F32,
            "ratio",
            "Share of time in which GPU memory was read or written.",
            since=2,
        ),
        gauge(
            "replays",
            Kind.I64,
            "count",
            "PCIe replays in the window.",
            Metric("stallscope_pcie_replays_total", kind="counter"),
        ),
        gauge("link_recoveries", Kind.I64, "count", "PCIe link recoveries.", since=2),
        gauge("pcie_errors", Kind.I64, "count", "PCIe errors of all classes.", since=2),
        gauge("ecc_corrected", Kind.I64, "count", "ECC errors corrected.", since=2),
        gauge("ecc_uncorrected", Kind.I64, "count", "ECC errors not corrected.", since=2),
        gauge("nvlink_rx_bytes", Kind.I64, "bytes", "NVLink bytes received in the window."),
        gauge("nvlink_tx_bytes", Kind.I64, "bytes", "NVLink bytes sent in the window."),
        gauge(
            "c2c_rx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Mean rate to the GPU over NVLink-C2C, where host copies bypass PCIe.",
            since=2,
        ),
        gauge(
            "c2c_tx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Mean rate from the GPU over NVLink-C2C.",
            since=2,
        ),
        gauge("processes", Kind.U16, "count", "Processes that hold a compute context.", since=2),
        _call_us("gpu_state"),
        gauge("reason", Kind.TEXT, "-", "Which parts are missing and why."),
    ),
    key=("device",),
    gauges=("sm_clock_mhz", "power_watts", "temperature_celsius", "memory_used_bytes"),
    sums=("replays",),
)

TABLES = (GPU_LINK, PCIE_UPLINK, GPU_STATE)
