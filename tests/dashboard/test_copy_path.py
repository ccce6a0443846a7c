"""The page Copy path: over a busy link, without one, and in every state between."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from analytics.catalog import library_statements
from dashboard import formats
from stallscope.storage.direct import seal_directly
from stallscope.storage.reader import Lake
from tests.dashboard import gpu_fixture, lake_fixture
from tests.dashboard.conftest import END_US, blocks, text_of

S = lake_fixture.S
SetTime = Callable[[int], None]
OpenPage = Callable[..., AppTest]
BEFORE_THE_INCIDENT = {
    "engine": "rag-long",
    "since": str(END_US - 780 * S),
    "until": str(END_US - 300 * S),
}
NASTY = lake_fixture.NASTY


def page_script() -> None:
    from dashboard.app_pages import copy_path  # noqa: PLC0415 - the body is run as a script

    copy_path.page()


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, at_time: SetTime) -> OpenPage:
    """Return a function that opens the page over a lake at its end, with parameters in the URL."""

    def open_it(lake: Path, now_us: int = END_US, **parameters: str) -> AppTest:
        monkeypatch.setenv("STALLSCOPE_LAKE_PATH", str(lake))
        monkeypatch.setenv("STALLSCOPE_HOST_NAME", lake_fixture.HOST)
        at_time(now_us)
        app = AppTest.from_function(page_script, default_timeout=30)
        for key, value in parameters.items():
            app.query_params[key] = value
        app.run()
        assert [exception.message for exception in app.exception] == []
        return app

    return open_it


def sheets(app: AppTest) -> dict[str, dict[str, Any]]:
    """Return the sheets by their title; the one of the figures has none."""
    return {sheet["title"] or _kind(sheet): sheet for sheet in blocks(app, "sheet")}


def _kind(sheet: dict[str, Any]) -> str:
    return "nodes" if sheet["table"] else "figures"


def verdict(app: AppTest) -> dict[str, Any]:
    (data,) = blocks(app, "verdict")
    return data


def said(app: AppTest) -> str:
    """Return the banners as prose."""
    return " ".join(
        run if isinstance(run, str) else next(iter(run.values()))
        for banner in verdict(app)["banners"]
        for run in (f"[{banner['kind']}: {banner['word']}]", *banner["text"])
    ).replace("\u00a0", " ")


def panels(app: AppTest) -> dict[str, dict[str, Any]]:
    (data,) = blocks(app, "panels")
    return {panel["key"]: panel for panel in data["panels"]}


def figures(app: AppTest) -> dict[str, str]:
    return {
        figure["name"]: figure["value"].replace("\u00a0", " ")
        for figure in sheets(app)["figures"]["figures"]
    }


def rows_of(sheet: dict[str, Any]) -> list[list[str]]:
    return [
        [f"{cell['text']}|{cell['sub']}".replace("\u00a0", " ") for cell in row["cells"]]
        for row in sheet["table"]["rows"]
    ]


def charts(app: AppTest) -> list[dict[str, Any]]:
    found = []
    for element in app.get("echarts_chart"):
        assert element.proto.alt
        found.append(json.loads(element.proto.spec))
    return found


def link_row(end_us: int, **more: object) -> dict[str, object]:
    return {"wall_us": end_us, "mono_us": 1, "device": 10, "window_us": S, **more}


def source_row(second: int, state: str, reason: str) -> dict[str, object]:
    return {
        "wall_us": END_US - second * S, "mono_us": 1, "source": "gpu_link", "state": state,
        "reason": reason, "reads": 1, "rows": 0, "rejects": 0, "failures": 0, "dropped": 0,
    }  # fmt: skip


def test_it_answers_first_and_proves_below(open_page: OpenPage, gpu_lake: Path) -> None:
    app = open_page(gpu_lake)
    assert said(app).startswith("[worse: Link full] GPU 0 H2D")
    assert "of 24.6 GB/s calibrated." in said(app)
    assert "The uplink 0000:16:00.0 that 2 GPUs share was above 85 % H2D" in said(app)
    assert said(app).endswith("Not judged: GPU 1 MIG.")
    tiles = verdict(app)["tiles"]
    assert [tile["name"] for tile in tiles] == ["GPU 0", "GPU 2", "GPU 1 MIG"]
    assert list(panels(app)) == ["itl", "rx_saturation", "tx_saturation", "rate", "uplink"]
    assert [title for title in sheets(app) if title not in {"figures", "nodes"}] == [
        "ITL spikes against copy-queue contention", "Every link against this ITL", "Links",
        "Topology",
    ]  # fmt: skip
    (freshness,) = blocks(app, "freshness")
    assert [chip["text"] for chip in freshness["chips"]] == ["7 of 8 sources"]


def test_tiles_tell_the_directions_and_how_they_know(open_page: OpenPage, gpu_lake: Path) -> None:
    busy, quiet, part = verdict(open_page(gpu_lake))["tiles"]
    assert busy["what"].startswith("H2D peak of achievable")
    (h2d, d2h) = busy["pairs"]
    assert [h2d[0], h2d[2].replace("\u00a0", " ")] == ["H2D", "of 24.6 GB/s"]
    assert [d2h[0], d2h[2].replace("\u00a0", " ")] == ["D2H", "of 26.3 GB/s"]
    assert h2d[1] != d2h[1]
    assert busy["lines"][1] == "byte counters, all of the time"
    assert "ceiling calibrated" in busy["foot"]
    assert quiet["lines"] == [
        "Link gen\u00a01\u00a0x16 of gen\u00a04\u00a0x16, at rest",
        "20 ms samples, 20\u00a0ms of each second",
    ]
    assert "ceiling assumed" in quiet["foot"]
    assert (part["figure"], part["kind"]) == ("not applicable", "fine")
    assert "MIG instance" in part["lines"][0]


def test_the_table_has_everything_and_no_made_up_figure(
    open_page: OpenPage, gpu_lake: Path
) -> None:
    sheet = sheets(open_page(gpu_lake))["Links"]
    assert [head["text"].replace("\u00a0", " ") for head in sheet["table"]["heads"]] == [
        "GPU", "State", "Direction", "Rate, mean and peak", "Achievable",
        "Saturation, mean and peak", "Above 85 %", "Of raw, peak", "Above 85 % over 15 min", "Link",
        "Seen by",
    ]  # fmt: skip
    rows = rows_of(sheet)
    assert [(row[0].partition("|")[0], row[2].partition("|")[0]) for row in rows] == [
        ("GPU 0", "H2D"), ("GPU 0", "D2H"), ("GPU 2", "H2D"), ("GPU 2", "D2H"),
        ("GPU 1 MIG", "both"), ("Uplink", "H2D"), ("Uplink", "D2H"),
    ]  # fmt: skip
    assert rows[0][4] == "24.6 GB/s|calibrated"
    assert rows[1][4] == "26.3 GB/s|calibrated"
    assert "peak 100 %" in rows[0][8]
    assert set(rows[4][3:9]) == {f"{formats.DASH}|"}, "not applicable is no number"
    assert rows[4][1].startswith("not applicable")
    assert "NVMe and NIC traffic is not in it" in rows[5][10]


def test_panels_hold_saturation_against_the_limit(open_page: OpenPage, gpu_lake: Path) -> None:
    shown = panels(open_page(gpu_lake))
    rx, tx = shown["rx_saturation"], shown["tx_saturation"]
    for panel in (rx, tx, shown["uplink"]):
        assert panel["limits"] == [{"value": 85, "label": "limit", "breach": True}]
        assert panel["max"] == 100
    assert [series["label"] for series in rx["series"]] == ["GPU 2", "GPU 0"]
    assert (rx["series"][-1]["colour"], tx["series"][-1]["colour"]) == ("h2d_copy", "d2h_copy")
    highest = max(value for value in rx["series"][-1]["high"] if value is not None)
    assert highest == 100
    assert max(value for value in tx["series"][-1]["high"] if value is not None) < 30
    (at_most,) = shown["rate"]["limits"]
    assert at_most == {"value": pytest.approx(24.6), "label": "H2D at most", "breach": False}
    assert shown["itl"]["limits"][0]["label"] == "median"
    assert "GPU 0 is the hottest" in rx["alt"]


def test_the_planted_slope_and_lag_are_found(open_page: OpenPage, gpu_lake: Path) -> None:
    """Before the incident nothing but the planted delay follows the link."""
    app = open_page(gpu_lake, **BEFORE_THE_INCIDENT)
    found = figures(app)
    assert float(found["Slope"].removesuffix(" ms")) == pytest.approx(
        gpu_fixture.PLANTED_MS / 10, rel=0.05
    )
    assert (found["Lag"], found["ITL from"]) == ("+1 s", "mean")
    assert float(found["By chance"]) < 0.01
    assert int(found["Windows"]) == 480
    (paragraph,) = sheets(app)["ITL spikes against copy-queue contention"]["text"]
    assert (paragraph["word"], paragraph["tone"]) == ("Rise together", "warn")
    notes = text_of(sheets(app)["figures"]["notes"])
    assert "Evidence, not attribution." in notes


def test_an_engine_that_owes_the_link_nothing_is_not_accused(
    open_page: OpenPage, gpu_lake: Path
) -> None:
    app = open_page(gpu_lake, **BEFORE_THE_INCIDENT | {"engine": "code"})
    (paragraph,) = sheets(app)["ITL spikes against copy-queue contention"]["text"]
    assert paragraph["word"] == "No relation beyond chance"
    assert paragraph["tone"] == ""
    assert float(figures(app)["By chance"]) > 0.05


def test_the_query_behind_the_dots_gives_the_dots(open_page: OpenPage, gpu_lake: Path) -> None:
    app = open_page(gpu_lake, **BEFORE_THE_INCIDENT)
    (link,) = sheets(app)["figures"]["links"]
    assert link["page"] == "sql"
    with Lake(gpu_lake).connect(library=library_statements()) as connection:
        rows = connection.execute(link["query"]).fetchnumpy()
        (links,) = sheets(app)["Links"]["links"]
        assert len(connection.execute(links["query"]).fetchall()) == 6
    dots, line = charts(app)[0]["series"][:2]
    drawn = dots["data"]
    assert len(drawn) == len(rows["time"]) - 1, "the last second has no second after it"
    assert drawn[0][0] == pytest.approx(float(rows["saturation_percent"][0]), rel=1e-3)
    assert drawn[0][1] == pytest.approx(float(rows["excess_ms"][1]), rel=1e-2, abs=1e-3)
    assert dots["markLine"]["data"] == [{"xAxis": 85}]
    assert len(line["data"]) == 2


def test_the_link_in_the_url_is_the_one_compared(open_page: OpenPage, gpu_lake: Path) -> None:
    app = open_page(gpu_lake, link="GPU 0 D2H", **BEFORE_THE_INCIDENT)
    table = rows_of(sheets(app)["Every link against this ITL"])
    assert table[0][0].startswith("GPU 0 D2H, link saturation")
    choice = next(box for box in app.selectbox if box.label == "Link")
    assert choice.options == [
        "Hottest link", "GPU 0 D2H", "GPU 0 H2D", "GPU 1 MIG D2H", "GPU 1 MIG H2D", "GPU 2 D2H",
        "GPU 2 H2D",
    ]  # fmt: skip


def test_nonsense_in_the_url_shows_the_hottest(open_page: OpenPage, gpu_lake: Path) -> None:
    app = open_page(gpu_lake, link="GPU 99", engine="nosuch", range="a year", since="9", until="1")
    table = rows_of(sheets(app)["Every link against this ITL"])
    assert table[0][0].startswith("GPU 0 H2D, link saturation")
    assert table[-1][0] == "Not measured: GPU 1 MIG D2H and GPU 1 MIG H2D|"


def test_charts_are_plain_data_with_words_beside_them(open_page: OpenPage, gpu_lake: Path) -> None:
    app = open_page(gpu_lake)
    saturation, own, tree = charts(app)
    for chart in (saturation, own):
        assert len(chart["series"][0]["data"]) <= 3_000
        assert chart["animation"] is False
    assert saturation["xAxis"]["max"] == 100
    assert own["xAxis"]["name"] == "its own KV copies, ms per second"
    assert tree["series"][0]["tooltip"] == {"show": False}
    assert "function" not in json.dumps([saturation, own, tree])


@pytest.mark.parametrize("choice", ["5 min", "1 h", "6 h", "24 h", "7 d"])
def test_every_range_works_and_seconds_are_compared(
    open_page: OpenPage, gpu_lake: Path, choice: str
) -> None:
    app = open_page(gpu_lake, range=choice)
    shown = panels(app)
    for panel in shown.values():
        assert panel["x"]["count"] <= 1_500
        assert any(value is not None for series in panel["series"] for value in series["high"])
    heads = [head["text"] for head in sheets(app)["Links"]["table"]["heads"]]
    assert heads[8].replace("\u00a0", " ").startswith("Above 85 % over ")
    over = rows_of(sheets(app)["Links"])[0][8]
    assert ("minute" in over) == (choice != "5 min")
    assert figures(app)["Lag"] == "+1 s"


def test_when_the_collector_stops_it_says_so_first(open_page: OpenPage, gpu_lake: Path) -> None:
    app = open_page(gpu_lake, END_US + 132 * S)
    kinds = [banner["kind"] for banner in verdict(app)["banners"]]
    assert kinds == ["stale", "old"]
    assert verdict(app)["tiles"], "the last known figures stay"


def test_a_collector_that_does_not_look_for_gpus_is_said_so(
    open_page: OpenPage, golden_lake: Path
) -> None:
    assert "Source gpu_link has not reported" in said(open_page(golden_lake))


def test_without_a_gpu_the_source_says_why(open_page: OpenPage, tmp_path: Path) -> None:
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60)
    why = "libnvidia-ml.so.1 is not on this machine"
    seal_directly(lake, {"source_health": [source_row(1, "unsupported", why)]}, sync=False)
    app = open_page(lake)
    assert "[quiet: No GPU read]" in said(app)
    assert why in said(app)
    assert verdict(app)["banners"][0]["link"] == ["Data health", "data-health"]
    assert panels(app)["rx_saturation"]["reason"] == "no GPU was read in this range"
    (paragraph,) = sheets(app)["ITL spikes against copy-queue contention"]["text"]
    assert paragraph["word"] == "Not measured"
    assert sheets(app)["Links"]["table"]["empty"] == "No GPU was read in this minute."
    assert "Nobody has looked yet" in text_of(sheets(app)["Topology"])


@pytest.mark.parametrize(
    ("state", "kind", "word"),
    [
        ("no_permission", "worse", "No permission"), ("gpu_lost", "worse", "Gpu lost"),
        ("not_applicable", "quiet", "Not applicable"), ("hung", "worse", "No answer"),
        ("unsupported", "quiet", "Unsupported"), ("future_word", "worse", "Future word"),
    ],
)  # fmt: skip
def test_a_gpu_that_cannot_be_judged_says_why(
    open_page: OpenPage, tmp_path: Path, state: str, kind: str, word: str
) -> None:
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60)
    rows = [
        link_row(END_US - k * S, state=state, reason="This is the reason.") for k in range(1, 60)
    ]
    seal_directly(lake, {"gpu_link": rows}, sync=False)
    app = open_page(lake)
    assert said(app).startswith(f"[{kind}: {word}]")
    assert "This is the reason." in said(app)
    (tile,) = verdict(app)["tiles"]
    assert tile["figure"].lower() == word.lower()
    assert (
        "saturation is known in this range: Links says why"
        in (panels(app)["rx_saturation"]["reason"])
    )


def test_a_gpu_that_vanished_and_one_that_stopped_are_named(
    open_page: OpenPage, tmp_path: Path
) -> None:
    """Other GPUs go on (rows of one GPU may end: NVIDIA/dcgm-exporter#164)."""
    host = lake_fixture.Host(gpus=3)
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60, host)
    gone = gpu_fixture.gpu_second(3, END_US - 300 * S, 0)["gpu_link"][0] | {"device": 55}
    stopped = [
        gpu_fixture.gpu_second(3, END_US - k * S, 0)["gpu_link"][0] | {"device": 56}
        for k in range(20, 50)
    ]
    seal_directly(lake, {"gpu_link": [gone, *stopped]}, sync=False)
    rows = {row[0].partition("|")[0]: row for row in rows_of(sheets(open_page(lake))["Links"])}
    assert rows["GPU #55"][1].startswith("no reading")
    assert "Last reading at 11:01:40 UTC." in rows["GPU #55"][10]
    assert rows["GPU #56"][1].startswith("no reading")
    assert "No reading for 20 s." in rows["GPU #56"][10]


def test_dropped_readings_and_a_worn_link_are_said(open_page: OpenPage, tmp_path: Path) -> None:
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60)
    row = {
        "state": "ok", "rx_window_mean_bytes_per_second": 6e9, "rx_saturation_ratio": 0.5,
        "tx_window_mean_bytes_per_second": 2e9, "tx_saturation_ratio": 0.1, "link_generation": 2,
        "link_width": 16, "max_link_generation": 4, "max_link_width": 16, "link_downtrained": True,
        "coverage_ratio": 1.0, "method": "gpm_cumulative",
    }  # fmt: skip
    rows = [link_row(END_US - k * S, **row) for k in range(1, 56)]
    rows += [link_row(END_US - k * S, state="ok", reason="link changed") for k in (56, 57, 58)]
    seal_directly(lake, {"gpu_link": rows}, sync=False)
    app = open_page(lake)
    assert said(app).startswith("[worse: Link degraded]")
    assert "runs at gen 2 x16 of gen 4 x16 under load." in said(app)
    shown = rows_of(sheets(app)["Links"])[0]
    assert shown[10] == (
        "byte counters (GPM), all of the time|3 readings of 58 dropped: link changed"
    )
    assert shown[9].startswith("gen 2 x16 of gen 4 x16|below its best for 100 %")


def test_exact_steps_and_copies_that_wait(open_page: OpenPage, tmp_path: Path) -> None:
    """With steps the p99 is compared; with copy events the backlog is drawn as well."""
    lake = lake_fixture.build(tmp_path / "lake", END_US, 300, lake_fixture.Host(gpus=1))
    steps, copies = [], []
    for second in range(300):
        at_us = END_US - (300 - second) * S
        busy = second % 20 < 5
        steps += [
            {"wall_us": at_us + k * 100_000, "mono_us": 1, "engine": 1, "engine_mono_us": 1,
             "itl_us": 30_000 + 20_000 * busy + 50 * (second * 7 % 13), "outputs": 4}
            for k in range(10)
        ]  # fmt: skip
        copies += [
            {"wall_us": at_us + 1, "mono_us": at_us + 1, "engine": 1, "device": 10,
             "direction": "rx", "bytes": 10**9, "enqueue_mono_us": at_us + k,
             "complete_mono_us": at_us + 1, "service_us": 90_000}
            for k in range(10 * busy)
        ]  # fmt: skip
    seal_directly(lake, {"engine_step": steps, "copy_event": copies}, sync=False)
    app = open_page(lake, range="5 min")
    assert figures(app)["ITL from"] == "p99"
    assert panels(app)["itl"]["sub"] == "rag-long, exact steps"
    _, backlog, own, _ = charts(app)
    assert backlog["xAxis"]["name"] == "copy backlog, ms"
    assert max(dot[0] for dot in backlog["series"][0]["data"]) == pytest.approx(900, rel=0.01)
    assert own["xAxis"]["name"].startswith("its own KV copies")
    rows = rows_of(sheets(app)["Every link against this ITL"])
    assert rows[1][0].startswith("GPU 0 H2D, copy backlog")
    slope_ms = float(rows[1][1].partition(" ms")[0])
    assert slope_ms == pytest.approx(10 * 20 / 900, rel=0.1), "20 ms longer for 900 ms of backlog"


def test_without_an_engine_the_links_are_shown(open_page: OpenPage, tmp_path: Path) -> None:
    host = lake_fixture.Host(engines=(), gpus=2)
    app = open_page(lake_fixture.build(tmp_path / "lake", END_US, 90, host))
    assert list(panels(app)) == ["rx_saturation", "tx_saturation", "rate", "uplink"]
    assert list(sheets(app)) == ["Links", "Topology", "nodes"]


def test_the_topology_is_told_in_words_as_a_tree_and_as_a_list(
    open_page: OpenPage, gpu_lake: Path
) -> None:
    app = open_page(gpu_lake)
    findings = sheets(app)["Topology"]["text"]
    assert [(one["word"], one["tone"]) for one in findings] == [
        ("Look at this", "warn"), ("Look at this", "warn"), ("To know", ""),
    ]  # fmt: skip
    nodes = sheets(app)["nodes"]["table"]["rows"]
    listed = [(row["cells"][0]["text"], row["cells"][0]["indent"]) for row in nodes]
    assert len(listed) == 15
    at = listed.index(("GPU 0", 4))
    assert listed[at + 1] == ("rag-long engine core", 5)
    tree = json.dumps(charts(app)[-1], ensure_ascii=False).replace("\u00a0", " ")
    for name in ("GPU 0, gen 4 x16", "bridge 16:00.0", "nvme2, gen 3 x4 ●", "mlx5_0"):
        assert name in tree
    assert "17:00.0" not in tree, "a bridge that only passes on is left to the list"


def test_names_from_outside_stay_text(open_page: OpenPage, tmp_path: Path) -> None:
    host = replace(lake_fixture.Host(gpus=3), gpu_model=NASTY)
    host = replace(host, engines=(lake_fixture.Engine(1, NASTY, 27, 9, suffers=True),))
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60, host)
    node = {"wall_us": END_US, "address": NASTY, "kind": "nic", "name": NASTY}
    finding = {
        "wall_us": END_US, "rule": "narrow_link", "subject": NASTY, "severity": "warning",
        "text": NASTY,
    }  # fmt: skip
    seal_directly(lake, {"topology": [node], "topology_finding": [finding]}, sync=False)
    app = open_page(lake)
    assert NASTY in text_of(sheets(app)["Links"]), "handed over as data, unchanged"
    assert sheets(app)["Topology"]["text"][0]["runs"] == [NASTY]
    everything = [*app.markdown, *app.caption, *(box for box in app.get("html"))]
    assert not [one for one in everything if "onerror" in str(getattr(one, "value", ""))]
    assert [element.proto.alt for element in app.get("echarts_chart")]
