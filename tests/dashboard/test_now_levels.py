"""Now quotes the best level that covers what it shows, and says which."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from analytics.catalog import library_statements
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake
from stallscope.storage.reader import Lake
from tests.dashboard import lake_fixture
from tests.dashboard.conftest import END_US, blocks

S = lake_fixture.S
OpenPage = Callable[..., AppTest]


def page_script() -> None:
    from dashboard.app_pages import now  # noqa: PLC0415 - the body is run as a script

    now.page()


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, at_time: Callable[[int], None]) -> OpenPage:
    """Return a function that opens the page over a lake at its end."""

    def open_it(lake: Path, **parameters: str) -> AppTest:
        monkeypatch.setenv("STALLSCOPE_LAKE_PATH", str(lake))
        at_time(END_US)
        app = AppTest.from_function(page_script, default_timeout=60)
        for key, value in parameters.items():
            app.query_params[key] = value
        app.run()
        assert [exception.message for exception in app.exception] == []
        return app

    return open_it


def panels_of(app: AppTest) -> dict[str, dict[str, Any]]:
    (data,) = blocks(app, "panels")
    return {panel["key"]: panel for panel in data["panels"]}


def tile_of(app: AppTest, name: str) -> dict[str, Any]:
    (verdict,) = blocks(app, "verdict")
    return next(tile for tile in verdict["tiles"] if tile["name"] == name)


def lake_without(path: Path, seconds: int, **kept: Callable[[dict[str, object]], bool]) -> Path:
    """Make a tapped lake in which some tables keep only some rows."""
    rows = lake_fixture.history(lake_fixture.Host(taps=True), END_US, seconds)
    for table, keep in kept.items():
        rows[table] = [row for row in rows[table] if keep(row)]
    create_lake(path)
    seal_directly(path, {table: found for table, found in rows.items() if found}, sync=False)
    return path


def test_tokens_are_quoted_where_there_are_tokens(open_page: OpenPage, tapped_lake: Path) -> None:
    app = open_page(tapped_lake, range="5 min")
    tile = tile_of(app, "rag-long")
    assert tile["foot"] == "tokens"
    with Lake(tapped_lake).connect(library=library_statements()) as lake:
        found = lake.execute(
            "SELECT quantile_disc(itl_us, 0.99) FROM token_gap WHERE engine = 1 AND wall_us >= ?",
            [END_US - 60 * S],
        ).fetchone()
    assert found is not None
    assert float(tile["figure"]) == pytest.approx(found[0] / 1_000, rel=0.015)
    panels = panels_of(app)
    assert panels["itl_us"]["sub"] == "rag-long, tokens"
    assert [one["label"] for one in panels["itl_us"]["series"]] == ["p99.9", "p50", "p99"]
    assert panels["ttft_us"]["sub"] == "rag-long, exact steps"
    assert panels["e2e_us"]["sub"] == "rag-long, scrape buckets"


def test_without_a_middleware_the_steps_are_quoted(open_page: OpenPage, tmp_path: Path) -> None:
    lake = lake_without(tmp_path / "lake", 120, token_gap=lambda _: False)
    app = open_page(lake, since=str(END_US - 120 * S), until=str(END_US))
    assert tile_of(app, "rag-long")["foot"] == "exact steps"
    assert panels_of(app)["itl_us"]["sub"] == "rag-long, exact steps"


def test_a_tap_of_half_a_minute_is_quoted_for_no_minute(
    open_page: OpenPage, tmp_path: Path
) -> None:
    late = END_US - 25 * S

    def is_late(row: dict[str, object]) -> bool:
        return int(str(row["wall_us"])) >= late

    lake = lake_without(
        tmp_path / "lake", 300, token_gap=is_late, engine_step=is_late, first_token=is_late
    )
    app = open_page(lake, range="5 min")
    assert tile_of(app, "rag-long")["foot"] == "scrape buckets"
    panels = panels_of(app)
    assert panels["itl_us"]["sub"] == "rag-long, scrape buckets"
    assert panels["ttft_us"]["sub"] == "rag-long, scrape buckets"
    zoomed = open_page(lake, since=str(late), until=str(END_US))
    assert panels_of(zoomed)["itl_us"]["sub"] == "rag-long, tokens"


@pytest.mark.parametrize("choice", ["1 h", "24 h"])
def test_long_ranges_take_tokens_from_rollups_and_first_tokens_from_buckets(
    open_page: OpenPage, tapped_lake: Path, choice: str
) -> None:
    panels = panels_of(open_page(tapped_lake, range=choice))
    assert panels["itl_us"]["sub"] == "rag-long, tokens"
    assert panels["ttft_us"]["sub"] == "rag-long, scrape buckets"
