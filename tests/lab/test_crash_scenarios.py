from __future__ import annotations

from pathlib import Path

import pytest

from lab.crash.damage import empty, flip_bit, truncate
from lab.crash.kill import Trial, run_kills
from lab.crash.outside_query import answer
from lab.crash.plan import Plan
from lab.crash.reading import LakeReader, OutsideReader, OwnReader
from lab.report import Check, print_checks
from stallscope.storage.layout import open_lake


@pytest.mark.slow
def test_killed_writers_lose_nothing(tmp_path: Path, duckdb15: Path) -> None:
    readers: list[LakeReader] = [OwnReader(), OutsideReader(duckdb15, "1.5.5")]
    checks = run_kills(Trial(tmp_path, kills=2, longest_s=1.0), readers)
    assert [check for check in checks if not check.holds] == []
    catalog = str(open_lake(tmp_path / "lake").catalog)
    (rows,) = answer(catalog, {"rows": "SELECT count(*) FROM token_gap"}).values()
    assert int(str(rows[0][0])) > 0


def test_plan_survives_its_way_through_a_command_line(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "lake", tmp_path / "acks", run=3, seconds=2, steps=((1.5, -3), (2.0, 4)))
    assert Plan.from_text(plan.to_text()).clock().steps == [(1.5, -3), (2.0, 4)]
    assert Plan.from_text(plan.to_text()).lake == tmp_path / "lake"


def test_damage_is_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "f"
    content = bytes(range(100))
    for spoil, left in ((truncate, content[:50]), (empty, b"")):
        file.write_bytes(content)
        spoil(file)
        assert file.read_bytes() == left
    file.write_bytes(content)
    flip_bit(file)
    changed = [a ^ b for a, b in zip(content, file.read_bytes(), strict=True)]
    assert sum(bits.bit_count() for bits in changed) == 1


@pytest.mark.parametrize(
    ("check", "status", "word"),
    [
        (Check("a", holds=True, detail=""), 0, "ok"),
        (Check("a", holds=False, detail=""), 1, "FAILED"),
        (Check("a", holds=None, detail=""), 0, "skipped"),
        (Check("a", holds=False, detail="", judged=False), 0, "told"),
    ],
)
def test_only_a_broken_promise_fails(
    check: Check, status: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_checks([check]) == status
    assert word in capsys.readouterr().out
