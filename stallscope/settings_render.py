"""Settings as people read them: a commented example file, and the values in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from stallscope.settings import Resolved
from stallscope.settings_fields import EngineTarget, Setting
from stallscope.settings_tree import DECLARED, SECTIONS

_WIDTH = 96
_HEAD = """\
# Settings of stallscope. Everything is optional; what stands here is the default.
# Read from --config, else STALLSCOPE_CONFIG, else ~/.config/stallscope/stallscope.toml, else
# /etc/stallscope/stallscope.toml. The environment wins over this file: STALLSCOPE_LAKE_PATH sets
# path of [lake], and so for each. `--set lake.path=...` wins over both.
"""
_ENGINES = """\
# [[engines]]
# name = "chat"
# url = "http://127.0.0.1:8000"
"""


def example() -> str:
    """Return a TOML file with every setting, its meaning and its default, all commented out."""
    parts = [_HEAD]
    for section, kind in SECTIONS.items():
        settings = [one for key, one in DECLARED.items() if key.startswith(f"{section}.")]
        parts.append(f"\n# {kind.__doc__}\n[{section}]\n" + "".join(map(_example_of, settings)))
    # Last, since TOML puts every bare key after [[engines]] into that engine.
    parts.append(f"\n{_comment(DECLARED['engines'].rule.meaning)}{_ENGINES}")
    return "".join(parts)


def effective(resolved: Resolved) -> list[dict[str, object]]:
    """Return one row per setting: key, value and origin; secrets are not shown."""
    return [
        {"key": key, "value": _shown(DECLARED[key], value), "origin": resolved.origins[key]}
        for key, value in resolved.values.items()
    ]


def _example_of(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2]
    rule = setting.rule
    notes = [rule.meaning, _limits(setting)]
    if rule.computed:
        notes.append(f"Default: {rule.computed}.")
    text = " ".join(note for note in notes if note)
    return f"{_comment(text)}# {name} = {_toml(rule.example or setting.default)}\n"


def _limits(setting: Setting) -> str:
    if setting.rule.low is None:
        return ""
    if setting.rule.high is None:
        return f"At least {setting.rule.low}."
    return f"{setting.rule.low} to {setting.rule.high}."


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in _wrapped(text))


def _wrapped(text: str) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def _toml(value: object) -> str:
    if isinstance(value, Path):
        return json.dumps(str(value))
    return json.dumps(value)  # JSON's spelling of texts, numbers and flat lists is TOML's too


def _shown(setting: Setting, value: object) -> object:
    if setting.rule.secret and value is not None:
        return "(set)"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [
            {"name": item.name, "url": item.url} if isinstance(item, EngineTarget) else item
            for item in value
        ]
    return value
