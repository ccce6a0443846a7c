"""The page Requests: slow requests, long pauses, one request; with taps and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from analytics.catalog import library_statements
from dashboard import formats, request_data
from dashboard.ranges import Range
from dashboard.request_rows import Asked
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake
from stallscope.storage.reader import Lake
from tests.dashboard import lake_fixture, tap_fixture
from tests.dashboard.conftest import END_US, blocks, text_of

S, MS = lake_fixture.S, lake_fixture.MS
SetTime = Callable[[int], None]
OpenPage = Callable[..., AppTest]
LAST = {"range": "5 min"}


def page_script() -> None:
    from dashboard.app_pages import requests  # noqa: PLC0415 - the body is run as a script

    requests.page()


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, at_time: SetTime) -> OpenPage:
    """Return a function that opens the page over a lake at its end, with parameters in the URL."""

    def open_it(lake: Path, now_us: int = END_US, **parameters: str) -> AppTest:
        monkeypatch.setenv("STALLSCOPE_LAKE_PATH", str(lake))
        monkeypatch.setenv("STALLSCOPE_HOST_NAME", lake_fixture.HOST)
        at_time(now_us)
        app = AppTest.from_function(page_script, default_timeout=60)
        for key, value in parameters.items():
            app.query_params[key] = value
        app.run()
        assert [exception.message for exception in app.exception] == []
        return app

    return open_it


def sheets(app: AppTest) -> dict[str, dict[str, Any]]:
    """Return the sheets by their title; the one of the figures has none."""
    return {sheet["title"]: sheet for sheet in blocks(app, "sheet")}


def rows_of(sheet: dict[str, Any]) -> list[dict[str, dict[str, Any]]]:
    """Return the rows of a sheet's table, each cell by the head of its column."""
    heads = [head["text"] for head in sheet["table"]["heads"]]
    return [dict(zip(heads, row["cells"], strict=True)) for row in sheet["table"]["rows"]]


def said(app: AppTest) -> str:
    (verdict,) = blocks(app, "verdict")
    runs = [run for banner in verdict["banners"] for run in banner["text"]]
    return "".join(run if isinstance(run, str) else next(iter(run.values())) for run in runs)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", "")


def ms(text: str) -> float:
    """Return a latency as the page spells it in milliseconds."""
    figure, unit = plain(text).split(" ")
    return float(figure) * (1_000 if unit == "s" else 1)


def figures_of(app: AppTest) -> dict[str, dict[str, str]]:
    return {figure["name"]: figure for figure in sheets(app)[""]["figures"]}


def test_it_names_the_longest_pause_and_who_made_it(open_page: OpenPage, tapped_lake: Path) -> None:
    app = open_page(tapped_lake, **LAST)
    text = plain(said(app))
    assert "is the longest pause between two outputs: 1 client of rag-long, at" in text
    assert "The engine itself: in that time it preempted 1 request" in text
    pauses = rows_of(sheets(app)["Longest pauses"])
    longest = [ms(row["Pause"]["text"]) for row in pauses]
    assert longest == sorted(longest, reverse=True)
    assert len({row["Ended"]["text"] for row in pauses}) == len(pauses), "one row per slow moment"


def test_a_server_that_stood_still_is_told_from_an_engine_that_was_slow(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    """Both are planted: 900 ms of the server every 67 s, 620 ms of prefill every 41 s."""
    pauses = rows_of(sheets(open_page(tapped_lake, **LAST))["Longest pauses"])
    stalls = [row for row in pauses if row["Meanwhile"]["text"] == "not the engine"]
    assert stalls
    for row in stalls:
        ended_s = int(row["Ended"]["text"].split(":")[2][:2])
        assert ms(row["Pause"]["text"]) == pytest.approx(tap_fixture.STALL_MS, rel=0.1), ended_s
        assert row["Meanwhile"]["tone"] == "warn"
        assert " and 2 others" in plain(row["Request"]["sub"]), "all lanes waited"
    assert all(row["Meanwhile"]["tone"] == "" for row in pauses if row not in stalls)


def test_the_figures_are_those_of_the_sql_library(open_page: OpenPage, tapped_lake: Path) -> None:
    zoom = (END_US - 200 * S, END_US - 20 * S)
    app = open_page(tapped_lake, since=str(zoom[0]), until=str(zoom[1]), engine="rag-long")
    figures = figures_of(app)
    with Lake(tapped_lake).connect(library=library_statements()) as lake:
        totals = lake.execute(
            "SELECT count(*), quantile_disc(ttft_us, 0.99), "
            "quantile_disc(ttft_without_queue_us, 0.99), quantile_disc(tpot_us, 0.99) "
            "FROM requests(?, ?, only_engine := 1)",
            zoom,
        ).fetchone()
        itl = lake.execute(
            "SELECT value_us FROM itl_per_output([0.99], ?, ?, only_engine := 1)", zoom
        ).fetchone()
        stall = lake.execute(
            "SELECT stall_us FROM api_server_stall(?, ?, step_us := NULL, only_engine := 1)", zoom
        ).fetchone()
    assert totals is not None
    assert itl is not None
    assert stall is not None
    assert figures["Requests"]["value"] == str(totals[0])
    for name, us in zip(("TTFT p99", "without queue", "TPOT p99"), totals[1:], strict=True):
        assert ms(figures[name]["value"]) == pytest.approx(us / 1_000, rel=0.01)
    assert ms(figures["ITL p99"]["value"]) == pytest.approx(itl[0] / 1_000, rel=0.01)
    assert ms(figures["Server stall"]["value"]) == pytest.approx(stall[0] / 1_000, rel=0.05)
    assert "rag-long" in figures["ITL p99"]["under"]


def test_class_and_route_stand_in_the_url_and_narrow(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    everything = sheets(open_page(tapped_lake, **LAST))
    app = open_page(
        tapped_lake, context="over 32k", route="/v1/completions", by="per token", **LAST
    )
    assert {box.label: box.value for box in app.selectbox} == {
        "Engine": "All engines", "Refresh": "every 2 s", "Context length": "over 32k",
        "Route": "/v1/completions", "Slowest by": "per token",
    }  # fmt: skip
    narrowed = sheets(app)
    slowest = rows_of(narrowed["Slowest requests"])
    assert slowest
    assert {plain(row["Context"]["text"]) for row in slowest} == {"41000"}
    assert all(row["Request"]["sub"].endswith("/v1/completions") for row in slowest)
    means = [ms(row["Per token"]["text"]) for row in slowest]
    assert means == sorted(means, reverse=True)
    assert narrowed["Slowest requests"]["aside"] == "by per token"
    classes = narrowed["By context and route"]
    assert len(rows_of(classes)) == len(rows_of(everything["By context and route"])) == 8
    whole = int(figures_of(open_page(tapped_lake, **LAST))["Requests"]["value"])
    assert sum(int(row["Requests"]["text"]) for row in rows_of(classes)) == whole


def test_nothing_with_that_class_is_said_and_the_choice_stays(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    app = open_page(tapped_lake, route="/nosuch", context="up to 8k", **LAST)
    assert said(app) == "No request with up to 8k and /nosuch ended in this time."
    assert next(box.value for box in app.selectbox if box.label == "Route") == "/nosuch"
    assert sheets(app)["Slowest requests"]["table"]["rows"] == []
    assert figures_of(app)["Requests"]["value"] == "0"
    assert figures_of(app)["TTFT p99"]["value"] == "not known"


def test_nonsense_in_the_url_shows_the_default(open_page: OpenPage, tapped_lake: Path) -> None:
    app = open_page(tapped_lake, context="<b>", by="age", engine="x", range="5 min")
    assert next(box.value for box in app.selectbox if box.label == "Slowest by") == "end to end"
    assert sheets(app)["Slowest requests"]["aside"] == "by end to end"


def test_spreads_have_all_that_was_observed_and_a_sentence_for_each(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    app = open_page(tapped_lake, **LAST)
    charts = [element.proto for element in app.get("echarts_chart")]
    assert len(charts) == 3
    for chart in charts:
        assert "p50" in str(chart)
        assert "p99" in str(chart)
    heads = sheets(app)
    assert plain(heads["Inter-token latency, per output"]["aside"]).endswith("from tokens")
    assert "thin line: without the queue" in heads["Time to first token"]["aside"]


def test_a_long_range_names_stretches_that_can_be_zoomed_to(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    app = open_page(tapped_lake, range="1 h")
    stretches = rows_of(sheets(app)["Longest pauses"])
    assert "in the 10 s from" in plain(said(app))
    pick = stretches[0]["Longest pause"]["pick"]
    assert int(pick["until"]) - int(pick["since"]) == 50 * S
    assert figures_of(app)["Server stall"]["under"] == "choose a shorter range"
    zoomed = open_page(tapped_lake, range="1 h", **pick)
    single = rows_of(sheets(zoomed)["Longest pauses"])
    assert ms(single[0]["Pause"]["text"]) == pytest.approx(
        ms(stretches[0]["Longest pause"]["text"]), rel=0.02
    )


def test_without_a_tap_it_says_what_to_install(open_page: OpenPage, golden_lake: Path) -> None:
    app = open_page(golden_lake)
    text = said(app)
    assert text.startswith("Nothing here tells of single requests or tokens.")
    install = text_of(sheets(app)["What would tell of them"])
    assert "--middleware stallscope_vllm.TokenTap" in install
    assert "pip install" in install
    assert "README.md" in install
    assert not app.get("echarts_chart")


def test_a_plugin_alone_shows_steps_and_says_what_is_missing(
    open_page: OpenPage, tmp_path: Path
) -> None:
    rows = lake_fixture.history(lake_fixture.Host(taps=True), END_US, 120)
    del rows["token_gap"]
    rows["request"] = [row for row in rows["request"] if row["level"] == "step"]
    create_lake(tmp_path / "lake")
    seal_directly(tmp_path / "lake", rows, sync=False)
    app = open_page(tmp_path / "lake", **LAST)
    found = sheets(app)
    assert found["Longest pauses"]["aside"] == "from exact steps"
    pauses = rows_of(found["Longest pauses"])
    assert {row["Request"]["text"] for row in pauses} <= {"rag-long", "code"}
    assert all(not row["Request"]["pick"] for row in pauses)
    assert figures_of(app)["Server stall"]["under"] == "needs the middleware"
    assert plain(found["Time to first token"]["aside"]).endswith("from exact steps")
    assert figures_of(app)["TTFT p99"]["value"] != "not known"
    assert figures_of(app)["without queue"]["value"] == "not known"


def test_when_the_collector_stops_it_says_so_first(open_page: OpenPage, tapped_lake: Path) -> None:
    (verdict,) = blocks(open_page(tapped_lake, END_US + 60 * S), "verdict")
    assert [banner["kind"] for banner in verdict["banners"]] == ["stale", "old"]


def a_request(lake: Path, where: str) -> tuple[int, int, int]:
    """Return (request, arrival, end) of one that ended."""
    with Lake(lake).connect(library=library_statements()) as connection:
        found = connection.execute(
            "SELECT request, arrival_wall_us, wall_us FROM requests(0, 9000000000000000) "
            f"WHERE arrival_wall_us > {END_US - 280 * S} AND {where} ORDER BY wall_us LIMIT 1"
        ).fetchone()
    assert found is not None
    return (int(found[0]), int(found[1]), int(found[2]))


def board(app: AppTest) -> dict[str, Any]:
    (data,) = blocks(app, "panels")
    return data


def test_one_request_has_its_facts_and_its_timeline(open_page: OpenPage, tapped_lake: Path) -> None:
    number, arrival_us, end_us = a_request(tapped_lake, "engine = 1 AND preemptions > 0")
    app = open_page(tapped_lake, request=str(number))
    facts = sheets(app)[f"Request {number}"]
    text = plain(text_of(facts))
    assert "On rag-long, /v1/chat/completions, context" in text
    figures = {figure["name"]: figure["value"] for figure in facts["figures"]}
    assert figures["Preempted"] == f"1{formats.TIMES}"
    assert ms(figures["First token"]) == pytest.approx(
        ms(figures["Queue"]) + ms(figures["without queue"]), rel=0.01
    )
    data = board(app)
    panels = {panel["key"]: panel for panel in data["panels"]}
    assert list(panels) == ["pauses", "prefill", "requests"]
    assert data["lane"] == "Preempted"
    assert [mark["label"].replace("\u00a0", " ") for mark in data["marks"]] == ["1 request"]
    begin, end = data["range"]
    assert begin <= arrival_us / S <= end_us / S <= end
    queue, prefill = panels["pauses"]["gaps"]
    assert queue["reason"].startswith("queue, ")
    assert prefill["reason"] == "prefill"
    client = next(one for one in panels["pauses"]["series"] if one["label"] == "client")
    longest = max(value for value in client["high"] if value is not None)
    assert longest == pytest.approx(tap_fixture.PREEMPT_MS, rel=0.1)
    held = sum(value == longest for value in client["high"]) * panels["pauses"]["x"]["step"] * 1_000
    assert held == pytest.approx(longest, rel=0.1), "a pause is drawn over the time it lasts"


def test_a_stall_of_the_server_wears_its_colour_and_prefill_does_not(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    """The planted stall and the planted prefill, in the life of one request each."""
    every_us = tap_fixture.STALL_EVERY_S * S
    crosses = f"engine = 1 AND wall_us // {every_us} > (arrival_wall_us + 2000000) // {every_us}"
    stalled, *_ = a_request(tapped_lake, f"{crosses} AND preemptions = 0")
    panel = board(open_page(tapped_lake, request=str(stalled)))["panels"][0]
    (server,) = (one for one in panel["series"] if one["colour"] == "api_stall")
    assert server["bandOnly"]
    assert any(value is not None for value in server["high"])
    quiet, *_ = a_request(tapped_lake, "engine = 2")
    panel = board(open_page(tapped_lake, request=str(quiet)))["panels"][0]
    assert [one["label"] for one in panel["series"]] == ["engine", "client"]


def test_its_longest_pauses_stand_below_with_what_the_engine_did(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    number, *_ = a_request(tapped_lake, "engine = 1 AND preemptions > 0")
    first = rows_of(sheets(open_page(tapped_lake, request=str(number)))["Its longest pauses"])[0]
    assert ms(first["Pause"]["text"]) == pytest.approx(tap_fixture.PREEMPT_MS, rel=0.1)
    assert first["Preempted then"]["text"] == "1"


def test_picks_change_only_what_they_may(open_page: OpenPage, tapped_lake: Path) -> None:
    app = open_page(tapped_lake, **LAST)
    slowest = rows_of(sheets(app)["Slowest requests"])
    picks = [row["Request"]["pick"] for row in slowest]
    assert [set(pick) for pick in picks] == [{"request"}] * len(slowest)
    number = picks[0]["request"]
    facts = sheets(open_page(tapped_lake, **picks[0]))[f"Request {number}"]
    back, around, sql = facts["links"]
    assert back["pick"] == {"request": ""}
    assert set(around["pick"]) == {"request", "since", "until"}
    assert f"request_timeline(\n    {number}," in sql["query"]


def test_the_sql_of_the_links_runs(open_page: OpenPage, tapped_lake: Path) -> None:
    number, *_ = a_request(tapped_lake, "engine = 2")
    one = sheets(open_page(tapped_lake, request=str(number)))[f"Request {number}"]
    many = sheets(open_page(tapped_lake, engine="code", **LAST))["Longest pauses"]
    with Lake(tapped_lake).connect(library=library_statements()) as lake:
        chunks = lake.execute(one["links"][2]["query"]).fetchall()
        pauses = lake.execute(many["links"][0]["query"]).fetchall()
    assert len(chunks) > 100
    assert len(pauses) == len(rows_of(many))


@pytest.mark.parametrize(
    "asked", ["4294967295", "99999999999", "-1", "1; DROP", "<img src=x>", "\u0966"]
)
def test_a_request_that_nobody_knows_is_said(
    open_page: OpenPage, tapped_lake: Path, asked: str
) -> None:
    missing = sheets(open_page(tapped_lake, request=asked))["Request not found"]
    assert asked[:40] in json.dumps(missing, ensure_ascii=False)
    assert missing["links"][0]["pick"] == {"request": ""}


def test_a_request_that_still_runs_shows_the_chunks_so_far(
    open_page: OpenPage, tapped_lake: Path
) -> None:
    running = tap_fixture.answer(2, 2, END_US - 1)
    assert running.end_us > END_US
    app = open_page(tapped_lake, request=str(running.number))
    facts = sheets(app)[f"Request {running.number}"]
    assert facts["text"][0]["word"] == "Running"
    assert [figure["name"] for figure in facts["figures"]] == ["Chunks"]
    assert board(app)["panels"][0]["series"]


def test_an_answer_in_one_piece_has_facts_and_no_pauses(
    open_page: OpenPage, tmp_path: Path
) -> None:
    rows = lake_fixture.history(lake_fixture.Host(taps=True), END_US, 60)
    rows["token_gap"] = [row for row in rows["token_gap"] if row["engine"] != 2]
    create_lake(tmp_path / "lake")
    seal_directly(tmp_path / "lake", rows, sync=False)
    number = next(int(str(row["request"])) for row in rows["request"] if row["engine"] == 2)
    app = open_page(tmp_path / "lake", request=str(number))
    pauses, prefill, _ = board(app)["panels"]
    assert "no middleware saw the answer" in pauses["reason"]
    assert prefill["reason"] == ""
    assert "Its longest pauses" not in sheets(app)


def test_names_from_outside_stay_text(open_page: OpenPage, tmp_path: Path) -> None:
    nasty = lake_fixture.NASTY
    engines = (lake_fixture.Engine(1, nasty, 27, 9, suffers=True),)
    host = replace(lake_fixture.Host(taps=True), engines=engines)
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60, host)
    app = open_page(lake, route=nasty, **LAST)
    assert nasty in text_of(sheets(app)["Slowest requests"]), "handed over as data, unchanged"
    markdown = " ".join(element.value for element in app.markdown)
    assert "<img" not in markdown
    assert "![x]" not in markdown


def test_many_pauses_are_not_read_one_by_one(
    open_page: OpenPage, tapped_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.request_picture.FEW_GAPS", 1_000)
    app = open_page(tapped_lake, **LAST)
    assert figures_of(app)["Server stall"]["under"] == "choose a shorter range"
    classes = rows_of(sheets(app)["By context and route"])
    assert {row["ITL p99"]["text"] for row in classes} == {"–"}  # noqa: RUF001 - the page's dash


def test_the_floor_keeps_as_many_pauses_as_are_wanted(tapped_lake: Path) -> None:
    asked = Asked(Range(END_US - 300 * S, END_US))
    with Lake(tapped_lake).connect(library=library_statements()) as lake:
        for wanted in (1, 40, 5_000):
            floor_us = request_data._floor_us(lake, asked, wanted)  # noqa: SLF001 - the bound itself
            (above,) = lake.execute(
                "SELECT count(*) FROM token_gap WHERE itl_us > ? AND wall_us >= ? AND wall_us < ?",
                [floor_us, asked.span.since_us, asked.span.until_us],
            ).fetchall()
            assert wanted <= above[0] <= 4 * wanted + 300
        assert request_data._floor_us(lake, asked, 10**9) == 0  # noqa: SLF001 - as above
