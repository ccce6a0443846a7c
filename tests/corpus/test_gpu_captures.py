"""What nvidia-smi and lspci showed on real machines, through the GPU sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.gpu_link import GpuLink
from collector.gpu_state import GpuStateSource
from collector.link_capacity import LinkState
from collector.link_load import DowntrainJudge
from collector.nvml.link_exceptions import LinkTraits, judge_link
from collector.nvml.messages import Flow, GpuState
from collector.pci_text import parse_generation, parse_width
from collector.source import Reading, Row
from stallscope.storage.rows import to_batch
from tests.collector.fake_machine import FakeMachine
from tests.collector.nvml_answers import ScriptedDriver, greeting
from tests.corpus.gpu_dumps import Dump, read_csv, read_xml

_CAPTURED = "linux-x86_64__nvidia-"

# file: GPUs, generation now and at most, lanes now and at most, tx and rx in KB/s
_DUMPS = {
    "k8stest-hw-qx-a100": (1, 4, 4, 16, 16, 350, 300),
    "k8stest-hw-qx-h100": (8, 5, 5, 16, 16, 502, 578),
    "k8stest-hw-qx-l40s": (1, 4, 4, 8, 16, 585, 292),
    "k8stest-hw-qx-t4": (1, 3, 3, 8, 16, 439, 292),
    "k8stest-mock-qx-a100-healthy": (2, 4, 4, 16, 16, 0, 0),
    "netdata-rtx-4090-driver-535": (1, 1, 3, 16, 16, 0, 0),
    "netdata-tesla-p100": (1, 3, 3, 16, 16, 0, 0),
    "telegraf-a100-sxm4-v12": (1, 4, 4, 16, 16, 4000, 0),
    "telegraf-a10g": (1, 1, 4, 8, 16, 0, 0),
    "telegraf-gtx-1660-ti": (1, 1, 3, 16, 16, 0, 0),
    "telegraf-quadro-p2000-v12": (1, 1, 3, 8, 16, 0, 0),
    "telegraf-rtx-3060-v12": (1, 1, 4, 16, 16, 550, 500),
    "telegraf-rtx-3080-v12": (1, 4, 4, 16, 16, 1000, 6000),
    "telegraf-rtx-4000-sff-ada-v13": (1, 1, 4, 16, 16, 830, 439),
}
_C2C = ("hw-qx-gb200", "mock-qx-gb200-ecc-injected", "mock-qx-gb200-throttle-counters")
# capture: generation idle, under load, at most
_CAPTURES = {
    "geforce-rtx-2080-super__610.57.04": (1, 3, 3),
    "geforce-rtx-4080-super__595.71.05": (1, 4, 4),
    "h100-80gb-hbm3__590.48.01": (5, 5, 5),
    "h100-mig__590.48.01": (5, 5, 5),
    "h200__590.48.01": (5, 5, 5),
}


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine")


def _xml(corpus: Path, name: str) -> list[Dump]:
    return list(read_xml(corpus / f"gpu/xml/{name}.xml"))


def _link_rows(fake: FakeMachine, dumps: Sequence[Dump], polls: int = 1) -> Sequence[Row]:
    """Return the rows of the last of so many polls that all show the same."""
    listed = [facts for dump in dumps for facts in (dump.facts, *dump.parts)]
    driver = ScriptedDriver(greeting(*listed), [[dump.link for dump in dumps]])
    source = GpuLink(fake.machine, driver)
    readings = [source.read() for _ in range(polls)]
    last = readings[-1]
    assert isinstance(last, Reading), last
    rows = last.rows["gpu_link"]
    to_batch("gpu_link", rows)
    assert isinstance(rows, Sequence)
    return rows


def _loaded(dump: Dump) -> Dump:
    """Return a dump with traffic of half of what its link carries to the GPU, a tenth back."""
    raw = LinkState(dump.link.generation or 0, dump.link.width or 0).raw
    assert raw is not None
    rx, tx = Flow(int(raw / 2), raw / 2, 1.0), Flow(int(raw / 10), raw / 10, 1.0)
    return replace(dump, link=replace(dump.link, rx=rx, tx=tx))


def test_every_dump_is_looked_at(corpus: Path) -> None:
    there = {path.stem for path in (corpus / "gpu/xml").glob("*.xml")}
    assert there == {*_DUMPS, *(f"k8stest-{name}" for name in _C2C)}
    captured = {path.stem.removeprefix(_CAPTURED) for path in (corpus / "gpu/captures").glob("*")}
    assert captured == set(_CAPTURES)


@pytest.mark.parametrize("name", _DUMPS)
def test_an_idle_machine_shows_its_links_and_no_fault(
    corpus: Path, fake: FakeMachine, name: str
) -> None:
    count, generation, most, width, lanes, tx_kb, rx_kb = _DUMPS[name]
    rows = _link_rows(fake, _xml(corpus, name), polls=5)
    whole = [row for row in rows if row["state"] != "not_applicable"]
    assert len(whole) == count
    first = whole[0]
    assert (first["link_generation"], first["max_link_generation"]) == (generation, most)
    assert (first["link_width"], first["max_link_width"]) == (width, lanes)
    assert first["tx_window_mean_bytes_per_second"] == tx_kb * 1_024
    assert first["rx_window_mean_bytes_per_second"] == rx_kb * 1_024
    assert {row["link_downtrained"] for row in whole} == {None}
    ratio = first["rx_saturation_ratio"]
    assert isinstance(ratio, float)
    assert ratio < 0.01


@pytest.mark.parametrize("name", ["k8stest-hw-qx-l40s", "k8stest-hw-qx-t4"])
def test_a_card_with_half_the_lanes_it_tells_is_no_fault_under_load(
    corpus: Path, fake: FakeMachine, name: str
) -> None:
    [row] = _link_rows(fake, [_loaded(dump) for dump in _xml(corpus, name)], polls=5)
    assert (row["link_width"], row["max_link_width"]) == (8, 16)
    assert row["link_downtrained"] is False


def test_a_link_that_stays_at_generation_1_under_load_is_a_fault(
    corpus: Path, fake: FakeMachine
) -> None:
    [row] = _link_rows(fake, [_loaded(dump) for dump in _xml(corpus, "telegraf-a10g")], polls=3)
    assert row["link_downtrained"] is True


@pytest.mark.parametrize("name", _C2C)
def test_where_copies_go_over_nvlink_c2c_the_pcie_link_says_nothing(
    corpus: Path, fake: FakeMachine, name: str
) -> None:
    rows = _link_rows(fake, _xml(corpus, f"k8stest-{name}"))
    assert {row["state"] for row in rows} == {"not_applicable"}
    assert {row.get("rx_saturation_ratio") for row in rows} == {None}
    assert all("C2C" in str(row["reason"]) for row in rows)


def test_a_divided_gpu_has_one_link_and_its_parts_have_none(
    corpus: Path, fake: FakeMachine
) -> None:
    dumps = _xml(corpus, "telegraf-a100-sxm4-v12")
    whole, *parts = _link_rows(fake, dumps)
    assert whole["tx_window_mean_bytes_per_second"] == 4_000 * 1_024
    assert [part["state"] for part in parts] == ["not_applicable"] * 4
    driver = ScriptedDriver(greeting(dumps[0].facts), states=[[dumps[0].state]])
    reading = GpuStateSource(fake.machine, driver).read()
    assert isinstance(reading, Reading)
    [state] = reading.rows["gpu_state"]
    assert isinstance(state, dict)
    assert state.get("utilisation_ratio") is None, "N/A where MIG is on"
    assert "utilisation_ratio" in str(state["reason"])


@pytest.mark.parametrize("name", _CAPTURES)
def test_links_step_down_when_idle_but_for_the_big_ones(
    corpus: Path, fake: FakeMachine, name: str
) -> None:
    idle_generation, load_generation, most = _CAPTURES[name]
    path = corpus / f"gpu/captures/{_CAPTURED}{name}.txt"
    [idle], [load] = list(read_csv(path, "idle")), list(read_csv(path, "load"))
    assert (idle.link.generation, load.link.generation) == (idle_generation, load_generation)
    assert idle.facts.max_generation == load.facts.max_generation == most
    quiet = replace(idle, link=replace(idle.link, rx=Flow(0, 0.0, 1.0), tx=Flow(0, 0.0, 1.0)))
    assert _link_rows(fake, [quiet], polls=5)[0]["link_downtrained"] is None
    assert _link_rows(fake, [_loaded(load)], polls=5)[0]["link_downtrained"] is False


@pytest.mark.parametrize("name", _CAPTURES)
@pytest.mark.parametrize("section", ["idle", "load"])
def test_states_of_captures_fit_and_what_they_lack_is_null(
    corpus: Path, fake: FakeMachine, name: str, section: str
) -> None:
    [dump] = read_csv(corpus / f"gpu/captures/{_CAPTURED}{name}.txt", section)
    driver = ScriptedDriver(greeting(dump.facts), states=[[dump.state]])
    reading = GpuStateSource(fake.machine, driver).read()
    assert isinstance(reading, Reading)
    rows = reading.rows["gpu_state"]
    to_batch("gpu_state", rows)
    assert reading.rejects == 0
    [row] = rows
    assert isinstance(row, dict)
    assert (row.get("utilisation_ratio") is None) == ("mig" in name)


def test_gb10_has_no_link_to_speak_of(corpus: Path) -> None:
    text = (corpus / "gpu/nvml-text/query-gpu-pcie-csv.txt").read_text(encoding="utf-8")
    line = text.partition("GB10")[2].splitlines()[2]
    _, _, most, now, lanes, _ = (cell.strip() for cell in line.split(","))
    assert (most, now) == ("1", "1")
    traits = LinkTraits("NVIDIA GB10", max_generation=int(most), max_width=int(lanes))
    assert judge_link(traits, "6.11.0")[0] is GpuState.NOT_APPLICABLE


# --- lspci: what both ends of a link say

_LINK = re.compile(r"Lnk(Cap|Sta):.*?Speed ([\d.]+)GT/s.*?Width x(\d+)")


def _lspci(corpus: Path, case: int) -> dict[str, LinkState]:
    """Return the links of a case: Cap is what both ends can, Sta what they do."""
    text = (corpus / "gpu/retyped/lspci-lnksta.txt").read_text(encoding="utf-8")
    body = text.partition(f"# case {case}")[2].partition("\n# case")[0]
    found = {}
    for kind, speed, width in _LINK.findall(body):
        generation, lanes = parse_generation(f"{float(speed)} GT/s"), parse_width(width)
        assert generation is not None
        assert lanes is not None
        found[kind] = LinkState(generation, lanes)
    return found


@pytest.mark.parametrize(
    ("case", "downtrained"),
    [(1, True), (3, False), (4, True)],
)
def test_a_link_of_lspci_under_load(corpus: Path, case: int, *, downtrained: bool) -> None:
    link = _lspci(corpus, case)
    judge = DowntrainJudge()
    verdicts = [
        judge.judge(link["Sta"], link["Cap"].generation, link["Cap"].width) for _ in range(3)
    ]
    assert verdicts[-1] is downtrained


def test_a_width_fault_is_told_from_an_idle_speed(corpus: Path) -> None:
    """Cases 1 and 2 are idle speed alone, case 4 lacks eight lanes at any speed."""
    idle, narrow = _lspci(corpus, 1), _lspci(corpus, 4)
    assert _lspci(corpus, 2)["Sta"] == idle["Sta"]
    awake = LinkState(idle["Cap"].generation, idle["Sta"].width)
    judge = DowntrainJudge()
    assert [judge.judge(awake, 4, idle["Cap"].width) for _ in range(3)][-1] is False
    awake = LinkState(narrow["Cap"].generation, narrow["Sta"].width)
    assert [judge.judge(awake, 4, narrow["Cap"].width) for _ in range(3)][-1] is True
