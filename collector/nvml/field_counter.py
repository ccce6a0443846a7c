"""Measuring a link by two byte counters of the driver, fields 197 and 198.

They wrap within tens of milliseconds, so a thread follows them between polls.
"""

from __future__ import annotations

import threading
import time

from collector.edges.nvml_device import Device
from collector.edges.nvml_errors import Code, NvmlError
from collector.edges.nvml_fields import PCIE_RX_BYTES, PCIE_TX_BYTES
from collector.nvml.follow_schedule import plan_following
from collector.nvml.messages import Flow, Method
from collector.nvml.stamping import instant_at, now
from collector.nvml.ways import FIRST_SAMPLE, NO_VALUE, RESET, Traffic
from collector.nvml.wrapping import ByteCounts, Counted
from stallscope.clock import Instant
from stallscope.units import NS_PER_US, US_PER_SECOND

_FIELDS = (PCIE_TX_BYTES, PCIE_RX_BYTES)
_CLOSE_PATIENCE_S = 0.1
_NOT_FOLLOWED = (
    "the counter wraps within {wrap_ms} ms and was not read often enough for any part of the window"
)


class FieldCounter:
    """Counts what the fields gain.

    Args:
        device: The GPU.
        bytes_per_second: The most that its link can carry; None when unknown.
    """

    method = Method.FIELD_COUNTER

    def __init__(self, device: Device, bytes_per_second: float | None) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._counts = ByteCounts(bytes_per_second)
        self._failure: NvmlError | None = None
        self._closed = False

    def start(self) -> None:
        """See whether both fields have values, and follow them from now on.

        Raises:
            NvmlError: They have not.
        """
        with self._lock:
            at_us = self._note()
            self._counts.take()
        if at_us is None:
            raise NvmlError(Code.NO_DATA, "fields 197 and 198", NO_VALUE)
        if not self._counts.wide:
            threading.Thread(target=self._follow, name="follower", daemon=True).start()

    def read(self) -> Traffic:
        """Return what was carried since the reading before."""
        with self._lock:
            at_us = self._note()
            if at_us is None:
                return Traffic(now(), reason=NO_VALUE)  # what was counted is for the next reading
            counted = self._counts.take()
        return self._traffic(instant_at(at_us), counted)

    def forget(self) -> None:
        """Take the next reading for the first."""
        with self._lock:
            self._counts.forget()

    def close(self) -> None:
        """Stop following, after the call in hand unless that one hangs."""
        has_lock = self._lock.acquire(timeout=_CLOSE_PATIENCE_S)
        self._closed = True
        if has_lock:
            self._lock.release()

    def _note(self) -> int | None:
        """Read both fields once; the lock is held.

        Returns:
            When, in monotonic microseconds; None when a field is marked to have no value.
        """
        if self._failure is not None:
            raise self._failure
        before_ns = time.monotonic_ns()
        found = self._device.fields(_FIELDS)
        at_us = (before_ns + time.monotonic_ns()) // (2 * NS_PER_US)
        if len(found) < len(_FIELDS):
            self._raise_refusal()
            return None
        self._counts.note(at_us, found[PCIE_RX_BYTES], found[PCIE_TX_BYTES])
        return at_us

    def _raise_refusal(self) -> None:
        for field in _FIELDS:
            refusal = self._device.refusal(field)
            if refusal is not None:
                raise refusal

    def _follow(self) -> None:
        """Read until closed, until a reading fails, or until the counter turns out not to wrap.

        Every line here runs 30 times a second for each GPU.
        """
        cpu_ns = 0
        while not self._counts.wide:
            plan = plan_following(self._counts.wrap_us, cpu_ns / NS_PER_US)
            began_ns = time.thread_time_ns()
            interval_s, rest_s = plan.interval_us / US_PER_SECOND, plan.rest_us / US_PER_SECOND
            for _ in range(plan.readings):
                time.sleep(interval_s - time.monotonic() % interval_s)
                if not self._note_quietly():
                    return
            cpu_ns = (time.thread_time_ns() - began_ns) // plan.readings
            if rest_s:
                time.sleep(rest_s)

    def _note_quietly(self) -> bool:
        """Read for the follower; returns whether to go on."""
        with self._lock:
            if self._closed or self._failure is not None:
                return False
            try:
                self._note()
            except NvmlError as error:
                self._failure = error  # for the next poll to say
            return True

    def _traffic(self, at: Instant, counted: Counted) -> Traffic:
        window_us = counted.window_us
        if not window_us:
            return Traffic(at, reason=FIRST_SAMPLE)
        if not counted.covered_us:
            not_followed = _NOT_FOLLOWED.format(wrap_ms=self._counts.wrap_us // 1000)
            return Traffic(at, window_us, reason=RESET if self._counts.wide else not_followed)
        coverage = min(1.0, counted.covered_us / window_us)
        rx, tx = (
            Flow(size, size * US_PER_SECOND / counted.covered_us, coverage)
            for size in (counted.rx_bytes, counted.tx_bytes)
        )
        return Traffic(at, window_us, rx, tx)
