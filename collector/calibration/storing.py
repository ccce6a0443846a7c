"""Putting what was measured into a lake: under the GPU's own id, as rows of link_ceiling."""

from __future__ import annotations

from pathlib import Path

from collector.calibration.one_gpu import Calibrated
from collector.names import StoredNames
from collector.nvml.messages import GpuFacts
from collector.source import Row
from stallscope.clock import Clock
from stallscope.errors import LakeError
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import open_lake
from stallscope.storage.shared_facts import SharedFacts
from stallscope.storage.writer import Writer, WriterOptions

_COLLECTOR = "collect"
"""The writer whose manifest the ids of devices are reserved in (`collector.runner`)."""


def store(lake: Path, done: Calibrated, clock: Clock, proc: Path) -> None:
    """Store both directions of one GPU in an existing lake.

    Args:
        lake: Folder of the lake.
        done: A GPU that was measured.
        clock: Stamps the name of a GPU that the lake does not know yet.
        proc: Root of the proc file system, for the boot id.

    Raises:
        LakeError: There is no lake, or it cannot be written.
    """
    device = find_device(lake, done.gpu.uuid)
    if device is None:
        device = _name_device(lake, done.gpu, clock, proc)
    seal_directly(lake, {"link_ceiling": ceiling_rows(device, done)}, proc=proc)


def ceiling_rows(device: int, done: Calibrated) -> list[Row]:
    """Return the rows of one GPU; none when it was not measured."""
    if done.measured is None or done.state is None:
        return []
    rates = done.measured.rates
    return [
        {
            "wall_us": done.wall_us,
            "device": device,
            "direction": direction,
            "kind": "calibrated",
            "bytes_per_second": alone,
            "together_bytes_per_second": together,
            "link_generation": done.state.generation,
            "link_width": done.state.width,
            "driver": done.gpu.driver,
            "tool": done.measured.tool,
        }
        for direction, alone, together in (
            ("rx", rates.rx, rates.rx_together),
            ("tx", rates.tx, rates.tx_together),
        )
    ]


def find_device(lake: Path, uuid: str) -> int | None:
    """Return the id of a GPU in a lake, or None when the lake does not know it.

    Raises:
        LakeError: There is no lake.
    """
    rows = SharedFacts(open_lake(lake), "device").rows()  # oldest first
    found = [row["device"] for row in rows if (row["kind"], row["name"]) == ("gpu", uuid)]
    return int(str(found[-1])) if found else None


def _name_device(lake: Path, gpu: GpuFacts, clock: Clock, proc: Path) -> int:
    """Give a GPU its id as the collector would: as the one writer that gives out ids.

    Raises:
        LakeError: A collector runs, so the id is its to give.
    """
    options = WriterOptions(housekeeping_s=0, proc=proc)
    try:
        writer = Writer.open(lake, _COLLECTOR, clock=clock, options=options)
    except LakeError as error:
        msg = f"{lake} does not know {gpu.uuid} yet ({error.message})"
        hint = "Wait until the running collector has read its GPUs, then calibrate again"
        raise LakeError(msg, hint) from error
    try:
        return StoredNames(writer, clock).device(
            {
                "kind": "gpu",
                "name": gpu.uuid,
                "role": "gpu",
                "model": gpu.model,
                "pci_address": gpu.pci_address,
                "gpu_index": gpu.index,
                "driver": gpu.driver,
            }
        )
    finally:
        writer.close()
