"""A host's kernel files in a folder, moving: ten NVMe drives, pressure and memory.

Both our collector and node_exporter take such a folder for /proc and /sys, so that both are
measured on the same machine that is not there.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Self

_DRIVES = 10
_STEP_S = 0.05
_MEMORY = {
    "MemTotal": 1_056_763_904, "MemFree": 402_653_184, "MemAvailable": 431_123_456,
    "Buffers": 812_344, "Cached": 238_345_216, "SwapCached": 0, "Active": 120_453_120,
    "Inactive": 131_072_000, "Unevictable": 3_145_728, "Mlocked": 3_145_728, "SwapTotal": 0,
    "SwapFree": 0, "Dirty": 8_192, "Writeback": 0, "AnonPages": 64_123_904, "Mapped": 9_437_184,
    "Shmem": 230_686_720, "HugePages_Total": 0, "HugePages_Free": 0, "Hugepagesize": 2_048,
}  # fmt: skip


class HostTree:
    """The folder and the thread that moves its counters; use as a context manager.

    Args:
        folder: Where ``proc`` and ``sys`` are made.
        seed: Same seed, same load.
    """

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.proc = folder / "proc"
        self.sys = folder / "sys"
        self._dice = random.Random(seed)
        self._drives = [[0] * 17 for _ in range(_DRIVES)]
        self._stalled_us = {"cpu": 0, "memory": 0, "io": 0}
        self._files: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._move, name="host-tree", daemon=True)

    def __enter__(self) -> Self:
        (self.proc / "pressure").mkdir(parents=True)
        (self.proc / "sys/kernel/random").mkdir(parents=True)
        (self.proc / "sys/kernel/random/boot_id").write_text("5f1c-lab\n", encoding="ascii")
        for number in range(_DRIVES):
            self._make_drive(number)
        self._write_all()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for file in self._files.values():
            os.close(file)

    def _make_drive(self, number: int) -> None:
        """Write what sysfs says of a drive."""
        block = self.sys / "block" / f"nvme{number}n1"
        values = {
            "device/model": "LAB NVMe 3.84TB", "device/serial": f"LAB{number:05d}",
            "device/firmware_rev": "1.0", "device/transport": "pcie", "device/numa_node": "0",
            "queue/nr_requests": "1023", "queue/scheduler": "[none] mq-deadline",
            "queue/logical_block_size": "512", "queue/iostats": "1", "size": "7501476528",
            "inflight": "       0        0",
        }  # fmt: skip
        for name, value in values.items():
            path = block / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value + "\n", encoding="ascii")

    def _move(self) -> None:
        while not self._stop.wait(_STEP_S):
            self._advance()
            self._write_all()

    def _advance(self) -> None:
        """Let a twentieth of a second of load pass."""
        for number, drive in enumerate(self._drives):
            reads = self._dice.randint(40, 120) if number % 2 else self._dice.randint(0, 2)
            writes = self._dice.randint(5, 25)
            for index, growth in ((0, reads), (2, reads * 256), (3, reads // 4), (4, writes)):
                drive[index] += growth
            drive[6] += writes * 32
            drive[7] += writes // 10
            drive[9] += min(50, reads // 3 + 1)
            drive[10] += reads // 4 + writes // 10
            drive[8] = self._dice.randint(0, reads // 20 + 1)
        for resource in self._stalled_us:
            self._stalled_us[resource] += self._dice.randint(0, 900)

    def _write_all(self) -> None:
        lines = [
            f" 259 {number:7d} nvme{number}n1 {' '.join(map(str, drive))}"
            for number, drive in enumerate(self._drives)
        ]
        self._write("diskstats", "\n".join(lines) + "\n")
        for resource, stalled in self._stalled_us.items():
            shares = [("some", stalled), ("full", stalled // 2)]
            text = "".join(
                f"{share} avg10=0.50 avg60=0.40 avg300=0.30 total={total}\n"
                for share, total in shares
            )
            self._write(f"pressure/{resource}", text)
        memory = {**_MEMORY, "Dirty": self._dice.randint(0, 20_000)}
        self._write("meminfo", "".join(f"{k}:{v:>16} kB\n" for k, v in memory.items()))

    def _write(self, name: str, text: str) -> None:
        """Write a file in place: like the kernel's, it is the same file with other content."""
        if name not in self._files:
            self._files[name] = os.open(self.proc / name, os.O_RDWR | os.O_CREAT, 0o644)
        data = text.encode("ascii")
        os.pwrite(self._files[name], data, 0)
        os.ftruncate(self._files[name], len(data))
