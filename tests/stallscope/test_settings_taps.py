from __future__ import annotations

import os
from pathlib import Path

import pytest

from stallscope import settings
from stallscope.settings import default_tap_socket, load


def test_the_environment_of_the_taps_names_the_socket_for_both_sides() -> None:
    env = {"HOME": "/h", "STALLSCOPE_TAP_SOCKET": "/s/tap.sock"}
    assert load(None, env, {}).taps.socket == Path("/s/tap.sock")
    assert load(None, env, {"taps.socket": "/mine.sock"}).taps.socket == Path("/mine.sock")


@pytest.mark.parametrize(
    ("can_write", "env", "path"),
    [
        (True, {"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/stallscope/tap.sock"),
        (False, {"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/stallscope/tap.sock"),
        (False, {"XDG_RUNTIME_DIR": "relative"}, "/run/stallscope/tap.sock"),
        (False, {}, "/run/stallscope/tap.sock"),
    ],
)
def test_it_lies_where_taps_look_and_we_may_write(
    monkeypatch: pytest.MonkeyPatch, *, can_write: bool, env: dict[str, str], path: str
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: can_write)
    assert default_tap_socket(env) == Path(path)


def test_a_folder_that_is_there_counts_and_else_the_one_above(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Path] = []

    def note(path: Path, _: int) -> bool:
        asked.append(path)
        return True

    monkeypatch.setattr(os, "access", note)
    monkeypatch.setattr(settings, "_SHARED_SOCKET", tmp_path / "stallscope/tap.sock")
    default_tap_socket({})
    (tmp_path / "stallscope").mkdir()
    default_tap_socket({})
    assert asked == [tmp_path, tmp_path / "stallscope"]


def test_request_ids_are_not_stored_unless_wanted() -> None:
    taps = load(None, {"HOME": "/h"}, {}).taps
    assert (taps.enabled, taps.group, taps.store_request_ids) == (True, None, False)
