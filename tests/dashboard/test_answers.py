# ruff: noqa: RUF001 - dashes between numbers are what is tested
from __future__ import annotations

from analytics.quantiles import Interval
from dashboard.answers import Usual, banners, is_worse, nothing_stored
from dashboard.engines import Engine
from dashboard.present import DiskNow, EngineNow, Present

NOW = 1_795_000_000_000_000
ENGINE = Engine(1, "rag-long", "m", "http://127.0.0.1:8000", "vllm", "h")


def engine(tail: Interval | None, name: str = "rag-long") -> EngineNow:
    quantiles = {} if tail is None else {("itl_us", 0.99): tail}
    known = Engine(1, name, "m", "", "vllm", "h")
    return EngineNow(known, quantiles, 4.0, 0.0, 0.5, (), by_prompt=True, flags="")


def said(present: Present, usual: Usual, newest: int = NOW) -> list[str]:
    return [
        "".join(run if isinstance(run, str) else next(iter(run.values())) for run in banner.text)
        .replace("\u00a0", " ")
        for banner in banners(present, usual, newest, NOW)
    ]  # fmt: skip


def test_the_bucket_is_quoted_and_never_a_figure_inside_it() -> None:
    tail = Interval(50_000, 75_000, 4_000)
    present = Present(
        NOW, (engine(tail),), (DiskNow("nvme2n1", 590.0, 40.0, 16.0, 14.0, stuck=False),)
    )
    (text,) = said(present, Usual("15 min", {1: Interval(25_000, 50_000, 90_000)}))
    assert text == (
        "rag-long: ITL p99 50–75 ms in the last minute, 25–50 ms over 15 min. Slowest disk reads: "
        "nvme2n1, 0.59 ms mean at a queue of 16. No SLO is set: measured, not judged."
    )


def test_worse_than_usual_only_when_the_intervals_do_not_meet() -> None:
    usual = Interval(25_000, 50_000, 90_000)
    assert is_worse(Interval(50_000, 75_000, 400), usual)
    assert not is_worse(Interval(25_000, 50_000, 400), usual)
    assert not is_worse(Interval(50_000, 75_000, 99), usual)
    assert not is_worse(Interval(50_000, 75_000, 400), None)
    assert not is_worse(Interval(90_000_000, None, 400), Interval(80_000_000, None, 400))
    exact = Interval(1, 2, 400, "step", value_us=40_000.0)
    assert is_worse(exact, Interval(1, 2, 9, "step", value_us=20_000.0))
    assert not is_worse(exact, Interval(1, 2, 9, "step", value_us=30_000.0))


def test_what_clients_see_is_not_held_against_what_the_engine_sees() -> None:
    """A middleware that was just installed makes no tail longer."""
    clients = Interval(1, 2, 400, "gap", value_us=90_000.0)
    assert not is_worse(clients, Interval(25_000, 50_000, 90_000))
    assert not is_worse(clients, Interval(1, 2, 9, "step", value_us=20_000.0))
    assert is_worse(clients, Interval(1, 2, 9, "gap", value_us=20_000.0))


def test_few_observations_make_no_p99() -> None:
    present = Present(NOW, (engine(Interval(50_000, 75_000, 12)),))
    assert "ITL slowest of 12 50–75 ms" in said(present, Usual("15 min"))[0]


def test_an_engine_without_requests_is_idle_and_not_at_0_ms() -> None:
    (text,) = said(Present(NOW, (engine(None),)), Usual("15 min"))
    assert text.startswith("rag-long answered every scrape, but served no request")
    assert "0 ms" not in text


def test_without_an_engine_it_says_what_is_measured() -> None:
    disks = (DiskNow("sda", None, None, None, None, stuck=False),)
    (text,) = said(Present(NOW, (), disks, {"io": 0.1}), Usual("15 min"))
    assert text.startswith("No engine answers on this host. Measured here: 1 disk and the host's")
    (text,) = said(Present(NOW), Usual("15 min"))
    assert "no source has delivered a row" in text


def test_when_data_stops_that_comes_first_and_the_rest_is_the_last_known() -> None:
    present = Present(NOW - 60_000_000, (engine(Interval(50_000, 75_000, 4_000)),))
    found = banners(present, Usual("15 min"), NOW - 60_000_000, NOW)
    assert [(banner.kind, banner.word.replace("\u00a0", " ")) for banner in found] == [
        ("stale", "Stale, 1 min"), ("old", "Last known"),
    ]  # fmt: skip
    assert "The collector stopped sending at 11:05:40 UTC." in str(found[0].text)
    assert "in the minute to 11:05:40 UTC" in "".join(map(str, found[1].text))


def test_an_empty_lake_and_none_at_all_say_what_to_do() -> None:
    assert "stallscope up" in str(nothing_stored().text)
    assert "no lake at /x" in str(nothing_stored("no lake at /x").text)
