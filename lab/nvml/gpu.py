"""One make-believe GPU; whatever is set holds from the library's next call on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from lab.nvml.control import FlowName, GpuControl, Group
from lab.nvml.flow import Flow
from lab.nvml.live_field import LiveInt, LiveText
from lab.nvml.traffic import Pace, Traffic

_PCIE_GROUPS = (Group.LINK, Group.THROUGHPUT, Group.REPLAY, Group.FIELDS, Group.GPM)


class Blank(IntEnum):
    """Kinds of numbers that mean "no value", in counters, doubles and 32-bit readings."""

    NONE = 0
    ALL_ONES = 1  # NVML's "not available"; NaN
    DCGM = 2  # 0x7ffffff0, 0x7ffffffffffffff0, 2^47
    NEAR_TOP = 3  # 0xfffffff0, 0xfffffffffffffff0; infinity


class FakeGpu:
    """One GPU.

    Attributes:
        idle_generation: Shown while no byte passes and utilisation is 0; 0 means never.
        field_counter_bits: 32 wraps fields 197/198, 64 does not.
        field_value_type: NVML's value type of fields 197/198; only the union member it names
            holds the value.
        field_counter_error: Verdict on fields 197/198 within a call that succeeds.
        gpm_metric_error: Verdict on each GPM metric within a call that succeeds.
        broken_gpm_zero: GPM says 0, whatever passes; ``broken_gpm_frozen`` says a constant.
        broken_field_zero: Fields 197/198 say 0; ``broken_field_frozen`` says a constant.
        blank_sentinel: A `Blank` in place of every number but link state and throttle reasons.
        throughput_block_us: How long one throughput call watches the link.
        field_pair_cost_us: Cost of reading 197 and 198; ``unsupported_field_cost_us`` is the cost
            of each field that is not supported.
        lost_after_calls: The n-th call from now, and all after it, say that the GPU is lost; it
            counts down and sets ``lost``. 0 is never.
        abort_after_calls: The n-th call from now aborts the process, once.
        segfault_after_calls: The same with a segmentation fault.
        hang: Calls do not return while this is not 0.
        rx: To the GPU over PCIe; ``tx`` is from it. So are ``c2c_rx``, ``c2c_tx``, ``nvlink_rx``
            and ``nvlink_tx``.
    """

    uuid = LiveText()
    name = LiveText()
    bus_id = LiveText()
    generation = LiveInt()
    idle_generation = LiveInt()
    width = LiveInt()
    max_generation = LiveInt()
    max_width = LiveInt()
    gpu_max_generation = LiveInt()
    minor_number = LiveInt()
    architecture = LiveInt()
    utilisation_percent = LiveInt()
    memory_utilisation_percent = LiveInt()
    memory_total_bytes = LiveInt()
    memory_used_bytes = LiveInt()
    memory_reserved_bytes = LiveInt()
    sm_clock_mhz = LiveInt()
    max_sm_clock_mhz = LiveInt()
    memory_clock_mhz = LiveInt()
    max_memory_clock_mhz = LiveInt()
    throttle_reasons = LiveInt()
    power_mw = LiveInt()
    power_limit_mw = LiveInt()
    temperature_celsius = LiveInt()
    ecc_corrected = LiveInt()
    ecc_uncorrected = LiveInt()
    replay_counter = LiveInt()
    replay_rollovers = LiveInt()
    link_recoveries = LiveInt()
    mig_enabled = LiveInt()
    mig_instances = LiveInt()
    virtualization_mode = LiveInt()
    c2c_enabled = LiveInt()
    c2c_links = LiveInt()
    supports_gpm_cumulative = LiveInt()
    supports_gpm_rate = LiveInt()
    supports_field_counter = LiveInt()
    supports_throughput = LiveInt()
    supports_nvlink = LiveInt()
    field_counter_bits = LiveInt()
    field_value_type = LiveInt()
    field_counter_error = LiveInt()
    gpm_metric_error = LiveInt()
    broken_gpm_zero = LiveInt()
    broken_gpm_frozen = LiveInt()
    broken_field_zero = LiveInt()
    broken_field_frozen = LiveInt()
    blank_sentinel = LiveInt()
    throughput_block_us = LiveInt()
    field_pair_cost_us = LiveInt()
    unsupported_field_cost_us = LiveInt()
    gpm_sample_cost_us = LiveInt()
    lost = LiveInt()
    lost_after_calls = LiveInt()
    abort_after_calls = LiveInt()
    segfault_after_calls = LiveInt()
    hang = LiveInt()
    calls = LiveInt()

    def __init__(self, control: GpuControl) -> None:
        self.control = control
        self._traffic = Traffic(control.traffic)
        self.rx = Flow(self._traffic, FlowName.RX)
        self.tx = Flow(self._traffic, FlowName.TX)
        self.c2c_rx = Flow(self._traffic, FlowName.C2C_RX)
        self.c2c_tx = Flow(self._traffic, FlowName.C2C_TX)
        self.nvlink_rx = Flow(self._traffic, FlowName.NVLINK_RX)
        self.nvlink_tx = Flow(self._traffic, FlowName.NVLINK_TX)

    @property
    def rx_bytes_per_second(self) -> int:
        """Rate to the GPU over PCIe; setting it keeps what has passed."""
        return self.rx.bytes_per_second

    @rx_bytes_per_second.setter
    def rx_bytes_per_second(self, value: int) -> None:
        self.rx.bytes_per_second = value

    @property
    def tx_bytes_per_second(self) -> int:
        """Rate from the GPU over PCIe; setting it keeps what has passed."""
        return self.tx.bytes_per_second

    @tx_bytes_per_second.setter
    def tx_bytes_per_second(self, value: int) -> None:
        self.tx.bytes_per_second = value

    def set_rates(self, rx: int, tx: int, *, on_us: int = 0, period_us: int = 0) -> None:
        """Set both PCIe rates at one moment; with a period they come in bursts of ``on_us``."""
        paces = {FlowName.RX: Pace(rx, on_us, period_us), FlowName.TX: Pace(tx, on_us, period_us)}
        self._traffic.change(paces)

    @property
    def error_code_for_pcie(self) -> int:
        """Return code of every call about the PCIe link."""
        return self.error_code(Group.THROUGHPUT)

    @error_code_for_pcie.setter
    def error_code_for_pcie(self, code: int) -> None:
        for group in _PCIE_GROUPS:
            self.fail(group, code)

    def fail(self, group: Group, code: int) -> None:
        """Let the calls of a group return a code; 0 ends it."""
        self.control.error_codes[group] = code

    def error_code(self, group: Group) -> int:
        """Return the code that a group's calls return."""
        code: int = self.control.error_codes[group]
        return code

    def group_calls(self, group: Group) -> int:
        """Return how often a group was called."""
        count: int = self.control.group_calls[group]
        return count

    def set_processes(self, memory_bytes: Mapping[int, int]) -> None:
        """Set the processes with a compute context: pid to GPU memory in bytes."""
        for index, (pid, size) in enumerate(memory_bytes.items()):
            self.control.process_ids[index] = pid
            self.control.process_bytes[index] = size
        self.control.processes = len(memory_bytes)

    def set_pcie_error(self, field: int, count: int) -> None:
        """Set the count of an error class by its field number, 173 to 183."""
        self.control.pcie_errors[field - 173] = count
