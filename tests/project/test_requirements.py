"""The locks pin everything with hashes, name no address, and agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.checkout import REPO

LOCKS = sorted((REPO / "requirements").glob("*.txt"))
_PIN = re.compile(r"^([a-z0-9-]+)(?:\[[a-z0-9,-]+\])?==(\S+)", re.MULTILINE)


def _pins(lock: Path) -> dict[str, str]:
    return dict(_PIN.findall(lock.read_text(encoding="utf-8")))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_requirement_is_pinned_and_hashed(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
    assert [entry for entry in entries if not _PIN.match(entry)] == []
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_no_lock_names_an_address(lock: Path) -> None:
    assert re.findall(r"(?i)https?:|file:|--(?:extra-)?index-url|@ ", lock.read_text("utf-8")) == []


def test_what_is_tested_is_what_ships() -> None:
    runtime, dev = (_pins(REPO / "requirements" / f"{name}.txt") for name in ("runtime", "dev"))
    assert runtime.items() <= dev.items()


def test_both_duckdbs_are_the_promised_ones() -> None:
    assert _pins(REPO / "requirements/runtime.txt")["duckdb"] == "2.0.1"
    assert _pins(REPO / "requirements/duckdb15.txt") == {"duckdb": "1.5.5"}
