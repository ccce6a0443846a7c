"""`stallscope sql`: the same rows as table, CSV, JSON and Parquet, and nothing half written."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stallscope import cli
from stallscope.storage.direct import seal_directly
from stallscope.storage.layout import create_lake

EVERYTHING = """
SELECT 1 AS i, 0.1::FLOAT AS f, 'a,"b' AS t, NULL AS n, true AS b, [1, NULL] AS l,
       {'k': TIMESTAMP '2026-11-30 01:02:03.000004'} AS s, 1.25::DECIMAL(9, 2) AS d,
       9::HUGEINT AS h, 'nan'::DOUBLE AS nan, DATE '2026-11-30' AS day, '\\xAB'::BLOB AS raw,
       INTERVAL 90 MINUTE AS span, TIMESTAMPTZ '2026-11-30 00:00:00+00' AS z
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli") / "lake"
    create_lake(folder)
    seal_directly(folder, {"note": [{"wall_us": 1, "text": "one"}, {"wall_us": 2, "text": "\x1b"}]})
    return str(folder)


def _out(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["sql", *words]) == 0
    return capfd.readouterr().out


def test_a_table_is_aligned_and_harmless_to_a_terminal(
    lake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT wall_us, text, author FROM note ORDER BY wall_us"
    assert _out(capfd, sql, "--lake", lake).splitlines() == [
        "wall_us  text  author",
        "-------  ----  ------",
        "      1  one     NULL",
        "      2  \\x1b    NULL",
    ]


def test_an_empty_table_shows_its_columns(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = _out(capfd, "SELECT text FROM note WHERE false", "--lake", lake)
    assert out == "text\n----\n"


def test_a_long_table_is_cut_and_says_so(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "FROM range(5000)", "--lake", lake]) == 0
    said = capfd.readouterr()
    assert len(said.out.splitlines()) == 2 + 1000
    assert said.err == (
        "stallscope: only the first 1000 rows; for all: --format csv, json or parquet\n"
    )


def test_csv_holds_all_rows_and_every_type(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = _out(capfd, "FROM range(5000)", "--lake", lake, "--format", "csv")
    assert len(out.splitlines()) == 1 + 5000
    (row,) = csv.DictReader(io.StringIO(_out(capfd, EVERYTHING, "--lake", lake, "--format", "csv")))
    assert row == {
        "i": "1", "f": "0.1", "t": 'a,"b', "n": "", "b": "true", "l": "[1, null]",
        "s": '{"k": "2026-11-30T01:02:03.000004Z"}', "d": "1.25", "h": "9", "nan": "nan",
        "day": "2026-11-30", "raw": "ab", "span": "P0M0DT5400S", "z": "2026-11-30 00:00:00.000000Z",
    }  # fmt: skip


def test_json_is_a_list_of_objects_that_any_parser_reads(
    lake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_constant(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    out = _out(capfd, EVERYTHING, "--lake", lake, "--format", "json")
    assert json.loads(out, parse_constant=no_constant) == [
        {
            "i": 1, "f": 0.1, "t": 'a,"b', "n": None, "b": True, "l": [1, None],
            "s": {"k": "2026-11-30T01:02:03.000004Z"}, "d": 1.25, "h": 9, "nan": None,
            "day": "2026-11-30", "raw": "ab", "span": "P0M0DT5400S",
            "z": "2026-11-30T00:00:00+00:00",
        }
    ]  # fmt: skip
    assert _out(capfd, "FROM range(0)", "--lake", lake, "--format", "json") == "[]\n"


def test_a_file_tells_the_format_by_its_name(
    lake: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for suffix in ("csv", "json", "parquet"):
        words = ["SELECT wall_us FROM note", "--lake", lake, "--out", str(tmp_path / f"x.{suffix}")]
        assert _out(capfd, *words) == ""
    assert (tmp_path / "x.csv").read_text(encoding="utf-8") == '"wall_us"\n1\n2\n'
    assert json.loads((tmp_path / "x.json").read_bytes()) == [{"wall_us": 1}, {"wall_us": 2}]
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == {"wall_us": [1, 2]}


def test_parquet_keeps_types(lake: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _out(capfd, EVERYTHING, "--lake", lake, "--out", str(tmp_path / "x.parquet"))
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column("l").to_pylist() == [[1, None]]
    assert str(table.schema.field("f").type) == "float"
    assert table.column("span").to_pylist() == ["P0M0DT5400S"]


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.parquet"])
def test_a_query_that_fails_on_the_way_leaves_no_file_and_keeps_the_old_one(
    lake: str, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    out.write_text("old", encoding="utf-8")
    sql = "SELECT CASE WHEN i = 90000 THEN CAST('x' AS INT) ELSE i END FROM range(100000) t(i)"
    assert cli.main(["sql", sql, "--lake", lake, "--out", str(out)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert out.read_text(encoding="utf-8") == "old"
    assert "Could not convert string 'x'" in capfd.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(
    lake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sql", "SELECT 1", "--lake", lake, "--out", "/proc/x.csv"]) == 2
    assert "Cannot write /proc/x.csv: No such file or directory" in capfd.readouterr().err


def test_a_statement_may_come_from_stdin(
    lake: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 7\nAS x"))
    assert _out(capfd, "--lake", lake, "--format", "csv") == '"x"\n7\n'


def test_a_refusal_is_one_line_with_a_way_out(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "COPY note TO 'x'", "--lake", lake]) == 2
    said = capfd.readouterr().err
    assert said.startswith("stallscope: COPY is refused: the lake is only read here. ")
    assert "--format parquet --out FILE" in said
    assert said.count("\n") == 1


def test_the_limits_are_settings(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["SELECT sleep_ms(60000)", "--lake", lake, "--set", "sql.timeout_s=1"]
    assert cli.main(["sql", *words]) == 2
    assert "stopped after 1 s" in capfd.readouterr().err


def test_documented_views_can_be_read(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = _out(capfd, "SHOW TABLES", "--lake", lake, "--format", "csv")
    assert {'"note"', '"engine_metrics"', '"itl_1s"', '"engine_histogram_bucket"'} <= set(
        out.splitlines()
    )
