"""`stallscope lake`: status, verify, compact, relocate, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from stallscope import cli
from stallscope.commands.lake import size_text
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    create_lake(folder)
    seal_directly(folder, {"note": [{"wall_us": 1_796_000_040_000_000, "text": "one"}]})
    return folder


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_status_tells_tables_and_times(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _json(capsys, "lake", "status", "--lake", str(lake))
    assert isinstance(told, dict)
    (table,) = told["tables"]
    assert (told["lake"], told["segments"], told["rows"]) == (str(lake), 1, 1)
    assert told["oldest_us"] == told["newest_us"] == 1_796_000_040_000_000
    assert (table["table"], table["segments"], table["rows"]) == ("note", 1, 1)
    assert cli.main(["lake", "status", "--lake", str(lake)]) == 0
    assert "2026-11-30 00:54:00 UTC" in capsys.readouterr().out


def test_a_sound_lake_is_said_to_be_sound(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, "lake", "verify", "--lake", str(lake)) == []
    assert cli.main(["lake", "verify", "--lake", str(lake)]) == 0
    assert "is sound: 1 segments" in capsys.readouterr().out


def test_a_flipped_bit_is_found_and_named(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (segment,) = (lake / "segments").rglob("*.parquet")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    assert cli.main(["lake", "verify", "--json", "--lake", str(lake)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["file"] == str(segment.relative_to(lake))
    assert cli.main(["lake", "verify", "--lake", str(lake)]) == 1
    assert segment.name in capsys.readouterr().out


def test_a_moved_lake_is_published_from_its_new_place(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lake", "relocate", "--lake", str(lake)]) == 0
    moved = lake.rename(tmp_path / "moved")
    capsys.readouterr()
    told = _json(capsys, "lake", "relocate", "--lake", str(moved))
    assert told == {"catalog": str(moved / "catalog.duckdb")}
    with duckdb.connect(str(moved / "catalog.duckdb"), read_only=True) as connection:
        assert connection.sql("SELECT text FROM note").fetchall() == [("one",)]


def test_compact_tells_how_much_it_did(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _json(capsys, "lake", "compact", "--lake", str(lake))
    assert isinstance(told, dict)
    assert told["merges"] >= 0
    assert _json(capsys, "lake", "compact", "--lake", str(lake)) == {"merges": 0}


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (1_479, "1.48 kB"), (999_600, "1 MB"),
     (10_000_000_000, "10 GB"), (79_512_345_678, "79.5 GB")],
)  # fmt: skip
def test_sizes_have_three_digits_and_a_decimal_unit(size: int, said: str) -> None:
    assert size_text(size) == said
