"""The example file is a settings file, and what is in force is shown without secrets."""

from __future__ import annotations

import tomllib
from pathlib import Path

from stallscope.settings import DECLARED, resolve
from stallscope.settings_render import effective, example

HOME = {"HOME": "/home/ada"}


def _uncommented() -> str:
    """Return the example with every setting switched on and every remark left as it is."""
    lines = []
    for line in example().splitlines():
        bare = line.removeprefix("# ")
        is_setting = bare.startswith("[[") or bare.partition(" = ")[0].isidentifier()
        lines.append(bare if (" = " in bare and is_setting) or bare.startswith("[[") else line)
    return "\n".join(lines)


def test_the_example_as_it_stands_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "example.toml"
    file.write_text(example(), encoding="utf-8")
    resolved = resolve(file, HOME, {})
    assert resolved.problems == ()
    assert set(resolved.origins.values()) == {"default"}


def test_every_setting_stands_in_the_example_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text(_uncommented(), encoding="utf-8")
    resolved = resolve(file, HOME, {})
    assert resolved.problems == ()
    assert [key for key, origin in resolved.origins.items() if origin == "default"] == []
    plain = {key for key, one in DECLARED.items() if one.default not in {None, ()}}
    assert {key: resolved.values[key] for key in plain} == {
        key: DECLARED[key].default for key in plain
    }


def test_every_setting_is_explained_by_a_sentence() -> None:
    for setting in DECLARED.values():
        assert setting.rule.meaning.endswith("."), setting.key
        assert setting.rule.meaning.split()[0] in example()


def test_the_example_has_short_lines_and_no_key_twice() -> None:
    assert max(map(len, example().splitlines())) <= 100
    assert tomllib.loads(_uncommented())


def test_what_is_in_force_hides_a_secret_and_tells_its_origin() -> None:
    resolved = resolve(None, HOME | {"STALLSCOPE_COLLECT_TOKEN": "s3cret"}, {})
    rows = {row["key"]: row for row in effective(resolved)}
    assert rows["collect.token"] == {
        "key": "collect.token", "value": "(set)", "origin": "environment STALLSCOPE_COLLECT_TOKEN",
    }  # fmt: skip
    assert rows["lake.path"]["value"] == "/home/ada/.local/state/stallscope"
    assert list(rows) == list(DECLARED)


def test_an_engine_is_shown_with_name_and_url() -> None:
    resolved = resolve(None, HOME, {"engines": "a=http://h:1"})
    shown = {row["key"]: row["value"] for row in effective(resolved)}
    assert shown["engines"] == [{"name": "a", "url": "http://h:1"}]
