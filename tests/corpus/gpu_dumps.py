"""Outputs of nvidia-smi from real machines, as what the NVML child would have said there."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.nvml.link_exceptions import MIG_INSTANCE, LinkTraits, judge_link
from collector.nvml.messages import Flow, GpuFacts, GpuState, LinkSample, Method, StateSample
from collector.pci_text import normalise_address
from tests.collector.stand_ins import SECOND, WALL

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LINUX = "6.8.0-31-generic"
_VIRTUALIZATION = {"Pass-Through": 1, "VGPU": 2}
_KB = 1_024


@dataclass(frozen=True)
class Dump:
    """One GPU as a dump shows it.

    Attributes:
        facts: What does not change.
        link: Its link with the traffic of the dump.
        state: Its state.
        parts: Its MIG instances.
    """

    facts: GpuFacts
    link: LinkSample
    state: StateSample
    parts: tuple[GpuFacts, ...] = ()


def parse_number(text: str | None) -> float | None:
    """Return the number in front of a unit; None for N/A, [Not Supported], - and their like."""
    match = _NUMBER.match(text or "")
    return None if match is None else float(match[0])


def read_xml(path: Path) -> Iterator[Dump]:
    """Yield the GPUs of ``nvidia-smi -q -x``; every node may be missing."""
    root = ET.parse(path).getroot()  # noqa: S314 - recordings that we chose, not a stranger's input
    driver = root.findtext("driver_version") or ""
    for index, gpu in enumerate(root.iter("gpu")):
        yield _dump(_Words({place: _text(gpu, place) for place in _PLACES}, index, driver), gpu)


def read_csv(path: Path, section: str) -> Iterator[Dump]:
    """Yield the GPUs of ``nvidia-smi --query-gpu=... --format=csv`` in a capture.

    Args:
        path: The capture.
        section: ``idle`` or ``load``.
    """
    text = path.read_text(encoding="utf-8")
    body = text.partition(f"# {section} :: query-gpu (csv")[2].partition("#####\n")[2]
    lines = body.partition("\n\n")[0].splitlines()
    header, *rows = csv.reader(lines, skipinitialspace=True)
    names = [name.partition(" [")[0] for name in header]
    for index, row in enumerate(rows):
        cells = dict(zip(names, row, strict=True))
        known = {place: cells.get(name) for place, name in _COLUMNS.items()}
        yield _dump(_Words(known, index, cells["driver_version"]), None)


_COLUMNS: Mapping[str, str] = {
    "product_name": "name",
    "uuid": "uuid",
    "pci/pci_bus_id": "pci.bus_id",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "pcie.link.gen.max",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "pcie.link.gen.current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "pcie.link.width.max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "pcie.link.width.current",
    "utilization/gpu_util": "utilization.gpu",
    "clocks/sm_clock": "clocks.current.sm",
    "power_readings/power_draw": "power.draw",
    "temperature/gpu_temp": "temperature.gpu",
    "c2c_mode": "c2c.mode",
}
_PLACES = (
    *_COLUMNS,
    "pci/tx_util",
    "pci/rx_util",
    "gpu_power_readings/power_draw",
    "gpu_virtualization_mode/virtualization_mode",
)


@dataclass(frozen=True)
class _Words:
    """The words of one GPU by place in the XML."""

    words: Mapping[str, str | None]
    index: int
    driver: str

    def text(self, place: str) -> str:
        return self.words.get(place) or ""

    def number(self, place: str) -> float | None:
        return parse_number(self.words.get(place))

    def whole(self, place: str) -> int | None:
        value = self.number(place)
        return None if value is None else int(value)


def _text(gpu: ET.Element, place: str) -> str | None:
    return gpu.findtext(place)


def _dump(words: _Words, gpu: ET.Element | None) -> Dump:
    generation = "pci/pci_gpu_link_info/pcie_gen"
    width = "pci/pci_gpu_link_info/link_widths"
    traits = LinkTraits(
        words.text("product_name"),
        c2c_links=1 if words.text("c2c_mode") == "Enabled" else None,
        virtualization_mode=_VIRTUALIZATION.get(
            words.text("gpu_virtualization_mode/virtualization_mode")
        ),
        max_generation=words.whole(f"{generation}/max_link_gen"),
        max_width=words.whole(f"{width}/max_link_width"),
    )
    verdict, reason = judge_link(traits, _LINUX)
    facts = GpuFacts(
        index=words.index,
        uuid=words.text("uuid"),
        model=traits.model,
        pci_address=normalise_address(words.text("pci/pci_bus_id")),
        driver=words.driver,
        max_generation=traits.max_generation,
        max_width=traits.max_width,
        link_state=verdict,
        link_reason=reason,
    )
    utilisation = words.number("utilization/gpu_util")
    link = LinkSample(
        facts.uuid,
        verdict,
        reason,
        Method.THROUGHPUT,
        WALL,
        SECOND,
        window_us=SECOND,
        rx=_flow(words.number("pci/rx_util")),
        tx=_flow(words.number("pci/tx_util")),
        generation=words.whole(f"{generation}/current_link_gen"),
        width=words.whole(f"{width}/current_link_width"),
        utilisation_ratio=None if utilisation is None else utilisation / 100,
    )
    return Dump(facts, link, _state(words, utilisation), tuple(_parts(facts, gpu)))


def _flow(kilobytes: float | None) -> Flow:
    return Flow() if kilobytes is None else Flow(None, kilobytes * _KB, 0.02)


def _state(words: _Words, utilisation: float | None) -> StateSample:
    power = words.number("gpu_power_readings/power_draw")
    found = {
        "sm_clock_mhz": words.number("clocks/sm_clock"),
        "power_watts": words.number("power_readings/power_draw") if power is None else power,
        "temperature_celsius": words.number("temperature/gpu_temp"),
        "utilisation_ratio": None if utilisation is None else utilisation / 100,
    }
    values = {name: value for name, value in found.items() if value is not None}
    missing = ", ".join(name for name, value in found.items() if value is None)
    reason = f"not supported: {missing}" if missing else ""
    return StateSample(words.text("uuid"), GpuState.OK, reason, WALL, SECOND, values=values)


def _parts(whole: GpuFacts, gpu: ET.Element | None) -> Iterator[GpuFacts]:
    for place, _ in enumerate(gpu.iterfind("mig_devices/mig_device") if gpu is not None else ()):
        yield GpuFacts(
            whole.index,
            f"MIG-{whole.uuid}-{place}",
            f"{whole.model} MIG",
            whole.pci_address,
            whole.driver,
            parent=whole.uuid,
            link_state=GpuState.NOT_APPLICABLE,
            link_reason=MIG_INSTANCE,
        )
