from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.gpu_link import GpuLink
from collector.gpu_requests import GpuRequests
from collector.nvml.messages import (
    GpuFacts,
    GpuState,
    LinkSample,
    Method,
    Probe,
    Trouble,
    TroubleKind,
)
from collector.source import NoData, Reading, Row, SourceError, State
from stallscope.storage.rows import to_batch
from tests.collector.fake_buses import put_cpuinfo
from tests.collector.fake_machine import FakeMachine, refusal_of
from tests.collector.nvml_answers import GB, ScriptedDriver, facts, flow, greeting, link
from tests.collector.stand_ins import SECOND, ManualClock

_RATES = (
    "rx_bytes",
    "tx_bytes",
    "rx_window_mean_bytes_per_second",
    "tx_window_mean_bytes_per_second",
    "rx_saturation_ratio",
    "tx_saturation_ratio",
    "rx_raw_ratio",
    "tx_raw_ratio",
)


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    made = FakeMachine(tmp_path / "machine")
    put_cpuinfo(made)
    return made


def _read(source: GpuLink) -> Reading:
    reading = source.read()
    assert isinstance(reading, Reading), reading
    for table, rows in reading.rows.items():
        assert isinstance(rows, Sequence)
        to_batch(table, rows)
    return reading


def _rows(source: GpuLink, table: str = "gpu_link") -> Sequence[Row]:
    rows = _read(source).rows[table]
    assert isinstance(rows, Sequence)
    return rows


def _one(fake: FakeMachine, *samples: LinkSample, gpu: GpuFacts | None = None) -> list[Row]:
    """Return the rows of one GPU that gives these samples."""
    driver = ScriptedDriver(greeting(gpu or facts()), [[sample] for sample in samples])
    source = GpuLink(fake.machine, driver)
    return [row for _ in samples for row in _rows(source)]


def test_each_direction_is_told_against_its_own_ceiling(fake: FakeMachine) -> None:
    # Generation 5 x16 carries 63.015 GB/s and usually achieves 88 % of that, 55.454.
    [row] = _one(fake, link(rx=44 * GB, tx=5 * GB))
    assert row["rx_bytes"] == 44 * GB
    assert row["tx_bytes"] == 5 * GB
    assert row["rx_window_mean_bytes_per_second"] == 44 * GB
    assert row["tx_window_mean_bytes_per_second"] == 5 * GB
    assert row["rx_saturation_ratio"] == pytest.approx(44 / 55.454, rel=1e-4)
    assert row["tx_saturation_ratio"] == pytest.approx(5 / 55.454, rel=1e-4)
    assert row["rx_raw_ratio"] == pytest.approx(44 / 63.015, rel=1e-4)
    assert row["tx_raw_ratio"] == pytest.approx(5 / 63.015, rel=1e-4)
    assert row["rx_ceiling_bytes_per_second"] == pytest.approx(55.454e9, rel=1e-4)
    assert (row["rx_ceiling_kind"], row["tx_ceiling_kind"]) == ("default", "default")
    assert (row["both_busy"], row["link_downtrained"], row["reason"]) == (False, False, None)
    assert (row["state"], row["method"], row["window_us"]) == ("ok", "gpm_cumulative", SECOND)
    assert (row["link_generation"], row["link_width"], row["call_us"]) == (5, 16, 300)


def test_the_gpu_is_named_by_its_uuid_with_what_is_known_about_it(fake: FakeMachine) -> None:
    fake.write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n")
    [row] = _one(fake, link())
    known = fake.devices()["GPU-0"]
    assert known["device"] == row["device"]
    assert (known["kind"], known["role"], known["model"]) == ("gpu", "gpu", "Fictional 9000")
    assert (known["pci_address"], known["numa_node"]) == ("0000:1b:00.0", 1)
    assert (known["gpu_index"], known["driver"]) == (0, "580.95.05")


def test_a_rate_above_the_ceiling_is_full_and_its_raw_ratio_tells_more(fake: FakeMachine) -> None:
    [row] = _one(fake, link(rx=58 * GB))
    assert row["rx_saturation_ratio"] == 1
    assert row["rx_raw_ratio"] == pytest.approx(58 / 63.015, rel=1e-4)


def test_an_idle_link_that_stepped_down_is_judged_at_its_best(fake: FakeMachine) -> None:
    """Idle at generation 1 is no fault, and a trickle does not saturate it (janhq/jan#183)."""
    rows = _one(fake, *[link(rx=0.5 * GB, tx=0.1 * GB, generation=1)] * 5)
    for row in rows:
        assert row["rx_saturation_ratio"] == pytest.approx(0.5 / 55.454, rel=1e-4)
        assert (row["link_downtrained"], row["link_generation"]) == (None, 1)
        assert row["max_link_generation"] == 5


def test_a_link_stuck_under_load_is_full_and_said_to_be_slow(fake: FakeMachine) -> None:
    """It went unseen for 3.5 hours (local-inference-lab/rtx6kpro#88)."""
    # Generation 2 x16 carries 8 GB/s and usually achieves 6.24.
    rows = _one(fake, *[link(rx=6.24 * GB, tx=1 * GB, generation=2)] * 4)
    assert [row["link_downtrained"] for row in rows] == [None, None, True, True]
    assert rows[-1]["rx_saturation_ratio"] == pytest.approx(1, rel=1e-3)


def test_two_equal_cards_of_which_one_is_idle_are_no_fault(fake: FakeMachine) -> None:
    cards = facts(0, max_generation=4), facts(1, max_generation=4)
    samples = [link("GPU-0", generation=1), link("GPU-1", rx=9 * GB, tx=2 * GB, generation=4)]
    source = GpuLink(fake.machine, ScriptedDriver(greeting(*cards), [samples]))
    verdicts = [[row["link_downtrained"] for row in _rows(source)] for _ in range(4)]
    assert verdicts == [[None, False]] * 4


def test_both_directions_busy_is_flagged_not_added_up(fake: FakeMachine) -> None:
    [row] = _one(fake, link(rx=40 * GB, tx=36 * GB))
    assert row["both_busy"] is True
    assert row["rx_saturation_ratio"] == pytest.approx(40 / 55.454, rel=1e-4)


@pytest.mark.parametrize(("way", "rates"), [("rx", (70e9, 1e9)), ("tx", (1e9, 70e9))])
def test_a_rate_that_no_link_carries_is_dropped_and_counted(
    fake: FakeMachine, way: str, rates: tuple[float, float]
) -> None:
    rx, tx = rates
    broken, sound = link("GPU-0", rx=rx, tx=tx), link("GPU-1", rx=2 * GB, tx=1 * GB)
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts(0), facts(1)), [[broken, sound]]))
    reading = _read(source)
    first, second = reading.rows["gpu_link"]
    assert [first.get(name) for name in _RATES] == [None] * len(_RATES)
    assert f"{way} came out as 70 GB/s, but gen 5 x16 carries 63.02" in str(first["reason"])
    assert reading.rejects == 1
    assert "GPU-0" in reading.reason
    assert second["rx_window_mean_bytes_per_second"] == 2 * GB


def test_a_rate_just_above_the_raw_one_is_the_clocks_doing(fake: FakeMachine) -> None:
    [row] = _one(fake, link(rx=68 * GB))
    assert row["rx_window_mean_bytes_per_second"] == 68 * GB


def test_a_link_that_changed_has_rates_but_no_one_ceiling(fake: FakeMachine) -> None:
    changed = link(rx=20 * GB, tx=3 * GB, generation=1, link_changed=True)
    rows = _one(fake, changed, link(rx=70 * GB, generation=1, link_changed=True))
    assert rows[0]["rx_window_mean_bytes_per_second"] == 20 * GB
    assert rows[0].get("rx_saturation_ratio") is None
    assert rows[0].get("link_downtrained") is None
    assert "changed" in str(rows[0]["reason"])
    assert rows[1].get("rx_window_mean_bytes_per_second") is None


@pytest.mark.parametrize(
    "state",
    [state for state in GpuState if state is not GpuState.OK],
)
def test_whatever_keeps_rates_from_being_known_they_are_null(
    fake: FakeMachine, state: GpuState
) -> None:
    sample = link(rx=3 * GB, tx=1 * GB, state=state, reason="so it is")
    [row] = _one(fake, sample)
    assert [row.get(name) for name in _RATES] == [None] * len(_RATES)
    assert row.get("both_busy") is None
    assert (row["state"], row["reason"]) == (state.value, "so it is")


def test_a_first_reading_says_that_it_is_one(fake: FakeMachine) -> None:
    [row] = _one(fake, link(rx=None, tx=None, window_us=None))
    assert row["window_us"] is None
    assert [row.get(name) for name in _RATES] == [None] * len(_RATES)
    assert row["reason"] == "first reading: a rate needs two"


def test_one_direction_may_be_missing(fake: FakeMachine) -> None:
    [row] = _one(fake, link(rx=None, tx=4 * GB, reason="no rx here"))
    assert row["rx_saturation_ratio"] is None
    assert row["rx_window_mean_bytes_per_second"] is None
    assert row["tx_saturation_ratio"] == pytest.approx(4 / 55.454, rel=1e-4)
    assert row["both_busy"] is None
    assert row["reason"] == "no rx here"


@pytest.mark.parametrize(
    "sample",
    [
        link(rx=3 * GB, tx=1 * GB, generation=None),
        link(rx=3 * GB, tx=1 * GB, width=None),
        link(rx=3 * GB, tx=1 * GB, generation=9),
        link(rx=3 * GB, tx=1 * GB, generation=2**32 - 1, width=2**32 - 1),
    ],
    ids=["no-generation", "no-width", "newer-than-we", "blank"],
)
def test_without_a_link_state_there_is_a_rate_but_no_ratio(
    fake: FakeMachine, sample: LinkSample
) -> None:
    [row] = _one(fake, sample)
    assert row["rx_window_mean_bytes_per_second"] == 3 * GB
    assert row.get("rx_saturation_ratio") is None
    assert "unknown" in str(row["reason"])


def test_a_short_window_is_told_by_its_coverage(fake: FakeMachine) -> None:
    """Throughput sees 20 ms of a second, and each direction another 20 ms."""
    high, low = flow(5 * GB, coverage=0.02), flow(2 * GB, coverage=0.03)
    [row] = _one(fake, replace(link(method=Method.THROUGHPUT), rx=high, tx=low))
    assert row["coverage_ratio"] == 0.02
    assert row["method"] == "throughput"


# --- GPUs that are lost, or no GPUs of their own


def test_one_lost_gpu_leaves_seven(fake: FakeMachine) -> None:
    cards = [facts(index) for index in range(8)]
    lost = link("GPU-3", rx=None, tx=None, state=GpuState.GPU_LOST, reason="GPU is lost (15)")
    samples = [link(f"GPU-{index}", rx=index * GB) for index in range(8)]
    samples[3] = lost
    source = GpuLink(fake.machine, ScriptedDriver(greeting(*cards), [samples]))
    reading = _read(source)
    rows = reading.rows["gpu_link"]
    assert [row["state"] for row in rows] == ["ok"] * 3 + ["gpu_lost"] + ["ok"] * 4
    assert rows[7]["rx_window_mean_bytes_per_second"] == 7 * GB
    assert reading.reason == "7 of 8 GPUs, lost: GPU-3; GPU-3: GPU is lost (15)"


def test_a_gpu_that_cannot_be_opened_is_counted(fake: FakeMachine) -> None:
    """Not all GPUs are reported: the rest is named (NVIDIA/dcgm-exporter#604, #250)."""
    unopened = GpuFacts(
        1, "", "", None, "580.95.05", link_state=GpuState.GPU_LOST, link_reason="lost (15)"
    )
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts(), unopened), [[link()]]))
    reading = _read(source)
    assert [row["state"] for row in reading.rows["gpu_link"]] == ["ok", "gpu_lost"]
    assert "1 of 2 GPUs, lost: GPU at index 1" in reading.reason
    assert "GPU at index 1" in fake.devices()


def test_a_gpu_keeps_its_name_when_it_can_no_longer_tell_it(fake: FakeMachine) -> None:
    driver = ScriptedDriver(greeting(facts(0), facts(1)), [[link("GPU-0"), link("GPU-1")]])
    source = GpuLink(fake.machine, driver)
    devices = [row["device"] for row in _rows(source)]
    lost = facts(1, uuid="", pci_address=None, model="", link_state=GpuState.GPU_LOST)
    driver.greeting = greeting(facts(0), lost)
    driver.links = [[link("GPU-0")]]
    reading = _read(source)
    assert [row["device"] for row in reading.rows["gpu_link"]] == devices
    assert reading.rows["gpu_link"][1]["state"] == "gpu_lost"
    assert "1 of 2 GPUs, lost: GPU-1" in reading.reason


def test_the_one_that_is_missing_is_known_although_the_others_moved_up(fake: FakeMachine) -> None:
    three = [facts(index) for index in range(3)]
    driver = ScriptedDriver(greeting(*three), [[link(f"GPU-{index}") for index in range(3)]])
    source = GpuLink(fake.machine, driver)
    _read(source)
    nameless = replace(
        facts(2, uuid="", pci_address=None), link_state=GpuState.GPU_LOST, link_reason="lost (15)"
    )
    driver.greeting = greeting(three[0], replace(three[2], index=1), nameless)
    driver.links = [[link("GPU-0"), link("GPU-2")]]
    reading = _read(source)
    assert [row["state"] for row in reading.rows["gpu_link"]] == ["ok", "ok", "gpu_lost"]
    assert reading.reason == "2 of 3 GPUs, lost: GPU-1; GPU-1: lost (15)"


def test_a_gpu_that_is_no_longer_listed_is_lost_and_named(fake: FakeMachine) -> None:
    driver = ScriptedDriver(greeting(facts(0), facts(1)), [[link("GPU-0"), link("GPU-1")]])
    source = GpuLink(fake.machine, driver)
    assert _read(source).reason == ""
    driver.greeting = greeting(facts(0))
    driver.links = [[link("GPU-0")]]
    reading = _read(source)
    assert [row["state"] for row in reading.rows["gpu_link"]] == ["ok", "gpu_lost"]
    assert "1 of 2 GPUs, lost: GPU-1" in reading.reason
    driver.greeting = greeting(facts(0), facts(1))
    driver.links = [[link("GPU-0"), link("GPU-1")]]
    assert _read(source).reason == ""


def test_a_card_that_gets_its_name_late_is_one_gpu(fake: FakeMachine) -> None:
    nameless = facts(1, uuid="", pci_address=None, link_state=GpuState.HUNG)
    driver = ScriptedDriver(greeting(facts(0), nameless), [[link("GPU-0")]])
    source = GpuLink(fake.machine, driver)
    assert [row["state"] for row in _rows(source)] == ["ok", "hung"]
    driver.greeting = greeting(facts(0), facts(1))
    driver.links = [[link("GPU-0"), link("GPU-1")]]
    reading = _read(source)
    assert [row["state"] for row in reading.rows["gpu_link"]] == ["ok", "ok"]
    assert reading.reason == ""


def test_a_mig_instance_has_a_row_that_points_to_its_gpu(fake: FakeMachine) -> None:
    whole = facts()
    part = facts(
        uuid="MIG-1",
        parent="GPU-0",
        link_state=GpuState.NOT_APPLICABLE,
        link_reason="the link belongs to the whole GPU",
    )
    source = GpuLink(
        fake.machine, ScriptedDriver(greeting(whole, part), [[link(rx=4 * GB, tx=1 * GB)]])
    )
    reading = _read(source)
    gpu, instance = reading.rows["gpu_link"]
    assert gpu["rx_window_mean_bytes_per_second"] == 4 * GB
    assert instance["state"] == "not_applicable"
    assert instance["reason"] == "the link belongs to the whole GPU"
    assert fake.devices()["MIG-1"]["role"] == "mig"
    assert reading.reason == "", "a divided GPU is nothing to warn of"


# --- what the source says of itself


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (TroubleKind.NO_LIBRARY, State.NOT_FOUND),
        (TroubleKind.NO_DRIVER, State.NOT_FOUND),
        (TroubleKind.NO_PERMISSION, State.RESTRICTED),
        (TroubleKind.ACCESS_LOST, State.RESTRICTED),
    ],
)
def test_a_driver_that_is_not_there_is_an_answer(
    fake: FakeMachine, kind: TroubleKind, state: State
) -> None:
    driver = ScriptedDriver(greeting(), trouble=Trouble(kind, "what dlopen said"))
    assert refusal_of(GpuLink(fake.machine, driver)) == NoData(state, "what dlopen said")


@pytest.mark.parametrize("kind", [TroubleKind.VERSION_MISMATCH, TroubleKind.FAILED])
def test_a_driver_that_fails_is_a_failure(fake: FakeMachine, kind: TroubleKind) -> None:
    driver = ScriptedDriver(greeting(facts()), links=[Trouble(kind, "it broke")])
    with pytest.raises(SourceError, match="it broke"):
        GpuLink(fake.machine, driver).read()


def test_on_request_the_driver_is_let_go_of(fake: FakeMachine) -> None:
    requests = GpuRequests()
    driver = ScriptedDriver(greeting(facts()), [[link()]])
    source = GpuLink(fake.machine, driver, requests=requests)
    requests.release(30, fake.clock.mono_us)
    fake.clock.advance(10 * SECOND)
    answer = refusal_of(source)
    assert (answer.state, answer.rest_us) == (State.DISABLED, 0)
    assert "20 s" in answer.reason
    assert (driver.rests, driver.asked) == (1, 0)
    fake.clock.advance(20 * SECOND)
    assert len(_rows(source)) == 1


def test_a_burst_is_fast_and_ends_by_itself(fake: FakeMachine) -> None:
    requests = GpuRequests()
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts()), [[link()]]), requests=requests)
    assert source.interval_us == SECOND
    requests.burst(5, fake.clock.mono_us)
    assert source.interval_us == SECOND // 5
    fake.clock.advance(5 * SECOND)
    assert source.interval_us == SECOND


def test_a_slow_driver_is_asked_less_often_and_that_is_said(fake: FakeMachine) -> None:
    slow = [link(call_us=120_000)]
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts()), [slow]))
    assert _read(source).reason == (
        "read every 2 s instead of 1 s: a reading kept the driver busy for 120 ms"
    )
    assert source.interval_us == 2 * SECOND


def test_the_first_reading_may_be_slow_since_all_ways_are_tried(fake: FakeMachine) -> None:
    first = [link(call_us=900_000, window_us=None)]
    source = GpuLink(fake.machine, ScriptedDriver(greeting(facts()), [first]))
    assert "read every" not in _read(source).reason
    assert source.interval_us == SECOND


def test_probes_are_told_when_they_change(fake: FakeMachine) -> None:
    works = Probe(Method.GPM_RATE, "works", 900)
    fails = Probe(Method.GPM_CUMULATIVE, "not supported", None)
    driver = ScriptedDriver(greeting(facts(probes=(fails, works))), [[link()]])
    source = GpuLink(fake.machine, driver)
    first, again = _rows(source, "probe_result"), _rows(source, "probe_result")
    assert [(row["probe"], row["outcome"], row["cost_us"]) for row in first] == [
        ("gpu_link.gpm_cumulative", "not supported", None),
        ("gpu_link.gpm_rate", "works", 900),
    ]
    assert again == []
    broken = Probe(Method.GPM_RATE, "source broken", None)
    driver.links = [[link(probes=(fails, broken))]]
    assert [row["outcome"] for row in _rows(source, "probe_result")] == ["source broken"]


def test_a_closed_source_leaves_the_driver(fake: FakeMachine) -> None:
    driver = ScriptedDriver(greeting(facts()), [[link()]])
    source = GpuLink(fake.machine, driver)
    source.close()
    assert driver.left == 1


def test_the_time_of_a_row_is_that_of_its_sample(fake: FakeMachine) -> None:
    clock = ManualClock(mono_us=77 * SECOND)
    driver = ScriptedDriver(greeting(facts()), [[link()]], clock=clock)
    [row] = _rows(GpuLink(fake.machine, driver))
    assert row["mono_us"] == 77 * SECOND


def test_a_gpu_that_gets_its_name_later_is_described_with_it(fake: FakeMachine) -> None:
    unnamed = facts(
        uuid="", model="", pci_address=None, link_state=GpuState.HUNG, link_reason="no answer"
    )
    driver = ScriptedDriver(greeting(unnamed), [[]])
    source = GpuLink(fake.machine, driver)
    [before] = _rows(source)
    driver.greeting, driver.links = greeting(facts()), [[link()]]
    [after] = _rows(source)
    assert (before["state"], before["reason"]) == ("hung", "no answer")
    assert (after["state"], after["max_link_generation"]) == ("ok", 5)
    assert fake.devices()["GPU-0"]["pci_address"] == facts().pci_address


def test_a_reason_that_gpus_share_is_told_once(fake: FakeMachine) -> None:
    uuids = ("GPU-0", "GPU-1", "GPU-2")
    samples = [
        link(uuid, state=GpuState.UNSUPPORTED, reason="no way" if uuid != "GPU-1" else "too old")
        for uuid in uuids
    ]
    driver = ScriptedDriver(greeting(*(facts(uuid=uuid) for uuid in uuids)), [samples])
    assert _read(GpuLink(fake.machine, driver)).reason == "GPU-0, GPU-2: no way; GPU-1: too old"
