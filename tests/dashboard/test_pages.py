from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import state
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake
from tests.dashboard import lake_fixture
from tests.dashboard.conftest import END_US, blocks, text_of

S = lake_fixture.S
NASTY = "<img src=x onerror=alert(1)>![x](http://192.0.2.1/x.png)**b**:red[r]"
SetTime = Callable[[int], None]


def now_script() -> None:
    from dashboard.app_pages import now  # noqa: PLC0415 - the body is run as a script of its own

    now.page()


def requests_script() -> None:
    from dashboard.app_pages import requests  # noqa: PLC0415 - as above

    requests.page()


def copy_path_script() -> None:
    from dashboard.app_pages import copy_path  # noqa: PLC0415 - as above

    copy_path.page()


def health_script() -> None:
    from dashboard.app_pages import data_health  # noqa: PLC0415 - as above

    data_health.page()


def sql_script() -> None:
    from dashboard.app_pages import sql  # noqa: PLC0415 - as above

    sql.page()


SCRIPTS = {
    "now": now_script,
    "requests": requests_script,
    "copy-path": copy_path_script,
    "data-health": health_script,
    "sql": sql_script,
}


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Return a function that opens a page over a lake, with parameters in the URL."""

    def open_it(name: str, lake: Path, **parameters: str) -> AppTest:
        monkeypatch.setenv("STALLSCOPE_LAKE_PATH", str(lake))
        monkeypatch.setenv("STALLSCOPE_HOST_NAME", lake_fixture.HOST)
        app = AppTest.from_function(SCRIPTS[name], default_timeout=30)
        for key, value in parameters.items():
            app.query_params[key] = value
        return app.run()

    return open_it


def healthy(app: AppTest) -> AppTest:
    assert [exception.message for exception in app.exception] == []
    return app


def panels_of(app: AppTest) -> dict[str, dict[str, Any]]:
    (data,) = blocks(app, "panels")
    return {panel["key"]: panel for panel in data["panels"]}


def test_now_answers_first_and_proves_below(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US)
    app = healthy(open_page("now", golden_lake))
    (verdict,) = blocks(app, "verdict")
    said = text_of(verdict["banners"])
    assert "rag-long" in said
    assert "No SLO is set" in said
    assert [tile["name"] for tile in verdict["tiles"]] == [
        "rag-long", "code", "nvme2n1", "Pressure",
    ]  # fmt: skip
    (freshness,) = blocks(app, "freshness")
    assert freshness["now"] - freshness["newest"] <= 1
    assert [chip["text"] for chip in freshness["chips"]] == ["5 of 6 sources"]
    assert list(panels_of(app)) == [
        "itl_us", "ttft_us", "e2e_us", "requests", "kv", "disk_latency", "disk_queue", "pressure",
    ]  # fmt: skip


def test_figures_are_bucket_edges_of_the_engine(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US)
    itl = panels_of(open_page("now", golden_lake))["itl_us"]
    edges = {0, *(bound / 1_000 for bound in lake_fixture.ITL_BOUNDS)}
    assert itl["unit"] == "ms, log"
    assert [series["label"] for series in itl["series"]] == ["p99", "p50"]
    for series in itl["series"]:
        assert {value for value in series["low"] if value is not None} <= edges
        assert {value for value in series["high"] if value is not None} <= edges
    p99 = itl["series"][0]
    before, during = p99["low"][100], max(low for low in p99["low"][-100:] if low is not None)
    assert before == 25
    assert during >= 100


def test_peaks_of_one_reading_survive(
    open_page: Callable[..., AppTest], tmp_path: Path, at_time: SetTime
) -> None:
    lake = tmp_path / "lake"
    create_lake(lake)
    rows = [
        {"wall_us": END_US - 1_500 * S + i * S // 2, "mono_us": 1, "device": 1,
         "window_us": S // 2, "io_stuck_candidate": False,
         "read_await_mean_us": 77_000.0 if i == 1_234 else 100.0, "queue_mean": 1.0}
        for i in range(3_000)
    ]  # fmt: skip
    seal_directly(lake, {"block_device": rows}, sync=False)
    at_time(END_US)
    zoom = {"since": str(END_US - 1_500 * S), "until": str(END_US)}
    latency = panels_of(healthy(open_page("now", lake, **zoom)))["disk_latency"]
    assert latency["x"]["count"] <= 1_500
    assert max(latency["series"][-1]["high"]) == 77


@pytest.mark.parametrize("choice", ["5 min", "1 h", "6 h", "24 h", "7 d"])
def test_every_range_in_the_url_works(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime, choice: str
) -> None:
    at_time(END_US)
    app = healthy(open_page("now", golden_lake, range=choice))
    (data,) = blocks(app, "panels")
    assert data["range"][1] - data["range"][0] == {
        "5 min": 300, "1 h": 3_600, "6 h": 21_600, "24 h": 86_400, "7 d": 604_800,
    }[choice]  # fmt: skip
    assert app.segmented_control[0].value == choice
    for panel in data["panels"]:
        assert panel["x"]["count"] <= 1_500
        assert any(value is not None for series in panel["series"] for value in series["high"])


def test_nonsense_in_the_url_shows_the_default(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US)
    app = healthy(open_page(
        "now", golden_lake, range="a year", refresh="0", engine="nosuch", since="9", until="1"
    ))  # fmt: skip
    (data,) = blocks(app, "panels")
    assert data["range"] == [END_US / S - 900, END_US / S]
    assert panels_of(app)["itl_us"]["sub"] == "rag-long, scrape buckets"


def test_the_engine_in_the_url_is_the_one_shown(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US)
    app = healthy(open_page("now", golden_lake, engine="code"))
    assert panels_of(app)["itl_us"]["sub"] == "code, scrape buckets"


def test_a_zoom_in_the_url_is_kept(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US)
    since, until = END_US - 300 * S, END_US - 100 * S
    app = healthy(open_page("now", golden_lake, since=str(since), until=str(until)))
    (data,) = blocks(app, "panels")
    assert data["zoom"] == data["range"] == [since / S, until / S]
    assert "minute to" in text_of(blocks(app, "verdict"))


def test_when_the_collector_stops_it_says_so_first(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US + 132 * S)
    (verdict,) = blocks(healthy(open_page("now", golden_lake)), "verdict")
    assert [banner["kind"] for banner in verdict["banners"]] == ["stale", "old"]
    assert "The collector stopped sending at" in text_of(verdict["banners"][0])
    assert verdict["tiles"], "the last known figures stay"


def test_without_an_engine_it_shows_what_it_measures(
    open_page: Callable[..., AppTest], tmp_path: Path, at_time: SetTime
) -> None:
    host = lake_fixture.Host(engines=())
    lake = lake_fixture.build(tmp_path / "lake", END_US, 60, host)
    at_time(END_US)
    app = healthy(open_page("now", lake))
    (verdict,) = blocks(app, "verdict")
    assert "No engine answers on this host. Measured here: 4 disks and the host's pressure" in (
        text_of(verdict["banners"]).replace('"}, "', "")
    )
    assert list(panels_of(app)) == ["engine", "disk_latency", "disk_queue", "pressure"]
    (health,) = blocks(healthy(open_page("data-health", lake)), "health")
    places = dict(health["search"]["places"])
    assert places["127.0.0.1:8000/metrics"] == "refused"
    assert places["127.0.0.1:8080/metrics"] == "answers, but no engine"
    assert places["127.0.0.1:30000/metrics"] == "no word yet"
    assert health["title"] == "Collecting, but no engine found on this host."


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_empty_lake_is_no_error(
    open_page: Callable[..., AppTest], tmp_path: Path, name: str
) -> None:
    create_lake(tmp_path / "lake")
    app = healthy(open_page(name, tmp_path / "lake"))
    if name != "sql":
        assert "The lake is empty" in text_of(blocks(app, "verdict"))
        assert "stallscope up" in text_of(blocks(app, "verdict"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_lake_is_no_error(open_page: Callable[..., AppTest], tmp_path: Path, name: str) -> None:
    app = healthy(open_page(name, tmp_path / "none"))
    if name != "sql":
        assert "no lake at" in text_of(blocks(app, "verdict"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_wrong_settings_are_said_and_no_error(
    open_page: Callable[..., AppTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("STALLSCOPE_SQL_TIMEOUT_S", "soon")
    app = healthy(open_page(name, tmp_path))
    shown = text_of(blocks(app, "verdict")) + "".join(warning.value for warning in app.warning)
    assert "TIMEOUT" in shown.replace("\\", "")


def test_health_names_every_source_with_state_and_reason(
    open_page: Callable[..., AppTest], golden_lake: Path, at_time: SetTime
) -> None:
    at_time(END_US)
    (health,) = blocks(healthy(open_page("data-health", golden_lake)), "health")
    rows = {row["name"]: row for row in health["sources"]}
    assert next(iter(rows)) == "engine_process", "what needs a look stands first"
    assert rows["engine_process"]["word"] == "no permission"
    assert "CAP_SYS_PTRACE" in rows["engine_process"]["exactly"]
    assert rows["block_device"]["word"] == "working"
    assert rows["block_device"]["pace"].replace("\u00a0", " ") == "10 Hz"
    assert rows["block_device"]["cost"].replace("\u00a0", " ") == "3.4 ms/s"
    assert rows["block_device"]["strip"].count("rows") == 2, "15 minutes touch two quarters"
    assert health["search"] is None
    assert [answer["word"] for answer in health["answers"]] == ["Yes", "Partly", "Partly", "Yes"]


def test_a_failing_source_makes_the_headline(
    open_page: Callable[..., AppTest], tmp_path: Path, at_time: SetTime
) -> None:
    lake = tmp_path / "lake"
    create_lake(lake)
    row = {"wall_us": END_US - S, "mono_us": 1, "source": "block_device", "state": "failed",
           "reason": "cannot read /proc/diskstats: permission denied", "reads": 10, "rows": 0,
           "rejects": 3, "failures": 10, "dropped": 0}  # fmt: skip
    seal_directly(lake, {"source_health": [row]}, sync=False)
    at_time(END_US)
    (health,) = blocks(healthy(open_page("data-health", lake)), "health")
    assert health["title"] == "block_device failed."
    (shown,) = health["sources"]
    assert shown["tone"] == "bad"
    assert "permission denied" in shown["exactly"]
    assert "10 polls failed in the last minute" in shown["exactly"]
    assert shown["cost"] == "not measured"
    assert shown["strip"][-1] == "trouble"


def test_missing_gauges_are_words(
    open_page: Callable[..., AppTest], tmp_path: Path, at_time: SetTime
) -> None:
    """An engine that offers neither load nor hits, and a kernel without pressure figures."""
    lake = tmp_path / "lake"
    create_lake(lake)
    rows: lake_fixture.Rows = lake_fixture.facts(lake_fixture.Host(disks=0), END_US)
    rows["engine_metrics"] = [
        {"wall_us": END_US - i * S, "mono_us": 1, "engine": 1, "window_us": S, "scrape_us": 9,
         "restarted": False, "partial": False, "rejected_lines": 0, "duplicates": 0}
        for i in range(1, 30)
    ]  # fmt: skip
    seal_directly(lake, {name: found for name, found in rows.items() if found}, sync=False)
    at_time(END_US)
    app = healthy(open_page("now", lake))
    (verdict,) = blocks(app, "verdict")
    (tile,) = verdict["tiles"]
    assert tile["figure"] == "no requests"
    assert tile["lines"] == [
        "load not offered by this engine", "hit rate not offered by this engine",
    ]  # fmt: skip
    panels = panels_of(app)
    assert panels["pressure"]["reason"].startswith("this kernel gives no pressure figures")
    assert panels["disk_latency"]["reason"] == "no disk was read in this range"
    assert all(value is None for value in panels["requests"]["series"][0]["high"])
    assert panels["requests"]["missing"] == "no data"


def test_names_from_outside_stay_text(
    open_page: Callable[..., AppTest], tmp_path: Path, at_time: SetTime
) -> None:
    host = lake_fixture.Host(engines=(
        lake_fixture.Engine(1, NASTY, 27, 9, suffers=True),
        lake_fixture.Engine(2, "code", 18, 9, suffers=False),
    ))  # fmt: skip
    lake = lake_fixture.build(tmp_path / "lake", END_US, 30, host)
    at_time(END_US)
    app = healthy(open_page("now", lake, engine=NASTY))
    (verdict,) = blocks(app, "verdict")
    assert NASTY in [tile["name"] for tile in verdict["tiles"]], "handed over as data, unchanged"
    markdown = " ".join(element.value for element in app.markdown)
    assert "<img" not in markdown
    assert "![x]" not in markdown


def run_to_the_end(app: AppTest) -> AppTest:
    next(button for button in app.button if button.label == "Run").click().run()
    until = time.monotonic() + 30
    while any(button.label == "Cancel" for button in app.button) and time.monotonic() < until:
        time.sleep(0.1)
        app.run()
    return healthy(app)


def test_a_query_in_the_url_fills_the_editor_and_does_not_run(
    open_page: Callable[..., AppTest], golden_lake: Path
) -> None:
    app = healthy(open_page("sql", golden_lake, q="SELECT name FROM engine"))
    assert app.text_area[0].value == "SELECT name FROM engine"
    assert state.JOB not in app.session_state
    assert len(app.dataframe) == 1, "the columns of the table on the left, no result"


def test_a_query_runs_when_asked_and_gives_rows(
    open_page: Callable[..., AppTest], golden_lake: Path
) -> None:
    app = open_page("sql", golden_lake, q="SELECT name FROM engine ORDER BY name")
    run_to_the_end(app)
    assert list(app.dataframe[0].value["name"]) == ["code", "rag-long"]
    said = " ".join(element.value for element in app.markdown)
    assert "2 rows" in said.replace("\u00a0", " ")


@pytest.mark.parametrize(
    "sql", ["COPY engine TO '/tmp/x'", "SELECT * FROM nosuch", "SELECT 1; SELECT 2"]
)
def test_what_is_refused_is_said_in_place(
    open_page: Callable[..., AppTest], golden_lake: Path, sql: str
) -> None:
    app = run_to_the_end(open_page("sql", golden_lake, q=sql))
    (warning,) = app.warning
    assert warning.value
    assert len(app.dataframe) == 1


def test_an_example_fills_the_editor(open_page: Callable[..., AppTest], golden_lake: Path) -> None:
    app = open_page("sql", golden_lake)
    example = next(box for box in app.selectbox if box.key == "sql_example")
    example.select("What changed, newest first").run()
    assert "FROM change_event" in str(app.text_area[0].value)
    run_to_the_end(app)
    assert "rag-long restarted" in list(app.dataframe[0].value["text"])


def test_a_result_over_time_can_be_drawn(
    open_page: Callable[..., AppTest], golden_lake: Path
) -> None:
    sql = "SELECT time, io_some_ratio_max AS io FROM host_pressure_1m ORDER BY time"
    app = run_to_the_end(open_page("sql", golden_lake, q=sql))
    app.toggle[0].set_value(True).run()
    (data,) = blocks(healthy(app), "panels")
    assert [panel["title"] for panel in data["panels"]] == ["io"]


def test_the_entry_lists_the_pages_that_exist(
    golden_lake: Path, monkeypatch: pytest.MonkeyPatch, at_time: SetTime
) -> None:
    monkeypatch.setenv("STALLSCOPE_LAKE_PATH", str(golden_lake))
    at_time(END_US)
    app = AppTest.from_file("../../dashboard/app.py", default_timeout=30).run()
    healthy(app)
    assert blocks(app, "verdict")
