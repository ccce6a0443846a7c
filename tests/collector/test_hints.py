from __future__ import annotations

import itertools

from collector.hints import hint_for
from collector.registry import SOURCES
from collector.source import State


def test_every_source_in_every_state_has_one_sentence() -> None:
    names = [*(entry.name for entry in SOURCES), "storage", "collector", "catalog"]
    for name, state in itertools.product(names, State):
        hint = hint_for(name, state)
        assert hint[0].isupper()
        assert hint.endswith(".")
        assert "\n" not in hint


def test_an_engine_that_is_not_found_is_asked_for() -> None:
    assert "http://127.0.0.1:8000" in hint_for("engine_metrics", State.NOT_FOUND)
