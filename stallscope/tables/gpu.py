"""Signals of the GPUs: what their host links carry, and the state they are in."""

from __future__ import annotations

from stallscope.columns import (
    DEVICE,
    MONO,
    WALL,
    WINDOW,
    Cadence,
    Kind,
    Metric,
    Role,
    Table,
    gauge,
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
        WINDOW,
        gauge("rx_bytes", Kind.I64, "bytes", "Bytes received by the GPU; true counters only."),
        gauge("tx_bytes", Kind.I64, "bytes", "Bytes sent by the GPU; true counters only."),
        gauge(
            "rx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Mean H2D rate.",
            Metric("stallscope_pcie_throughput_bytes_per_second", labels=(("direction", "rx"),)),
        ),
        gauge(
            "tx_window_mean_bytes_per_second",
            Kind.F32,
            "bytes/s",
            "Mean D2H rate.",
            Metric("stallscope_pcie_throughput_bytes_per_second", labels=(("direction", "tx"),)),
        ),
        gauge(
            "rx_saturation_ratio",
            Kind.F32,
            "ratio",
            "H2D rate over the achievable ceiling.",
            Metric("stallscope_pcie_saturation_ratio", labels=(("direction", "rx"),)),
        ),
        gauge(
            "tx_saturation_ratio",
            Kind.F32,
            "ratio",
            "D2H rate over the achievable ceiling.",
            Metric("stallscope_pcie_saturation_ratio", labels=(("direction", "tx"),)),
        ),
        gauge("rx_raw_ratio", Kind.F32, "ratio", "H2D rate over the theoretical link rate."),
        gauge("tx_raw_ratio", Kind.F32, "ratio", "D2H rate over the theoretical link rate."),
        gauge("coverage_ratio", Kind.F32, "ratio", "Share of the window that was measured."),
        gauge("method", Kind.TEXT, "-", "gpm_cumulative, gpm_rate, field_counter or throughput."),
        gauge("ceiling_kind", Kind.TEXT, "-", "default, learned or calibrated."),
        gauge("link_generation", Kind.U8, "-", "Current PCIe generation."),
        gauge("link_width", Kind.U8, "lanes", "Current PCIe width."),
        gauge("both_busy", Kind.BOOL, "-", "Both directions were busy in the window."),
        gauge(
            "link_downtrained",
            Kind.BOOL,
            "-",
            "Slower or narrower than possible, under load.",
            Metric("stallscope_pcie_link_downtrained"),
        ),
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

GPU_STATE = Table(
    name="gpu_state",
    role=Role.SIGNAL,
    meaning="One row per GPU and poll: clocks, throttling, power, temperature, memory, errors.",
    columns=(
        WALL,
        MONO,
        DEVICE,
        WINDOW,
        gauge("sm_clock_mhz", Kind.U32, "MHz", "SM clock."),
        gauge("memory_clock_mhz", Kind.U32, "MHz", "Memory clock."),
        gauge("throttle_reasons", Kind.I64, "-", "NVML bit mask of clock event reasons."),
        gauge("power_watts", Kind.F32, "W", "Power drawn."),
        gauge("temperature_celsius", Kind.F32, "celsius", "GPU temperature."),
        gauge("memory_used_bytes", Kind.I64, "bytes", "Memory in use."),
        gauge("memory_total_bytes", Kind.I64, "bytes", "Memory of the GPU."),
        gauge("utilisation_ratio", Kind.F32, "ratio", "Share of time with a kernel running."),
        gauge("replays", Kind.I64, "count", "PCIe replays in the window."),
        gauge("nvlink_rx_bytes", Kind.I64, "bytes", "NVLink bytes received in the window."),
        gauge("nvlink_tx_bytes", Kind.I64, "bytes", "NVLink bytes sent in the window."),
        gauge("reason", Kind.TEXT, "-", "Which parts are missing and why."),
    ),
    key=("device",),
    gauges=("sm_clock_mhz", "power_watts", "temperature_celsius", "memory_used_bytes"),
)

TABLES = (GPU_LINK, GPU_STATE)
