"""What a setting is: its documentation, its limits and how a value of it is read.

Nothing here knows a particular setting; `stallscope.settings` declares them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import get_type_hints
from urllib.parse import urlsplit

_RULE = "rule"
_PORT = (1, 65_535)
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_INTEGER = re.compile(r"[+-]?\d+(_\d+)*")


class WrongValueError(ValueError):
    """A value is not what a setting wants; the message says what it wants."""


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """One inference engine to read.

    Attributes:
        name: Name in tables, labels and pages; unique.
        url: Where it answers, ``http://host:port``; ``/metrics`` is added where no path is given.
    """

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What a setting means and what it may be.

    Attributes:
        meaning: One or two sentences for `settings --example`.
        low: Smallest value, for integers.
        high: Largest value, for integers.
        secret: Never printed.
        computed: How the value is found when nobody sets it; empty when there is a plain default.
        example: What `settings --example` shows where there is no plain default.
    """

    meaning: str
    low: int | None = None
    high: int | None = None
    secret: bool = False
    computed: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as the dataclass tree declares it.

    Attributes:
        key: Dotted name, for example ``lake.path``.
        kind: Its type.
        rule: What it may be.
        default: The plain default, or None for computed and optional ones.
    """

    key: str
    kind: object
    rule: Rule
    default: object

    @property
    def environment(self) -> str:
        """Return the environment variable that sets it."""
        return "STALLSCOPE_" + self.key.replace(".", "_").upper()


def describe(
    meaning: str,
    *,
    low: int | None = None,
    high: int | None = None,
    secret: bool = False,
    computed: str = "",
    example: str = "",
) -> Mapping[str, Rule]:
    """Return field metadata that makes a dataclass field a setting; see `Rule`."""
    return MappingProxyType({_RULE: Rule(meaning, low, high, secret, computed, example)})


def describe_port(meaning: str) -> Mapping[str, Rule]:
    """Return field metadata of a TCP port."""
    return describe(meaning, low=_PORT[0], high=_PORT[1])


def declared(tree: type) -> Iterator[Setting]:
    """Yield every setting of a dataclass tree, sections in the order of the tree."""
    kinds = get_type_hints(tree)
    for field in dataclasses.fields(tree):
        if _RULE in field.metadata:
            yield _as_setting(field.name, kinds[field.name], field)
        else:
            yield from _of_section(field.name, kinds[field.name])


def _of_section(section: str, kind: type) -> Iterator[Setting]:
    kinds = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        yield _as_setting(f"{section}.{field.name}", kinds[field.name], field)


def _as_setting(key: str, kind: object, field: dataclasses.Field[object]) -> Setting:
    has_default = field.default is not dataclasses.MISSING
    return Setting(key, kind, field.metadata[_RULE], field.default if has_default else None)


def read_text(setting: Setting, text: str, folder: Path) -> object:
    """Return the value that a text of the environment or a flag stands for.

    Args:
        setting: Which setting.
        text: ``true``, ``8501``, ``8000,8001`` or ``name=url,url``.
        folder: What a relative path is relative to.

    Raises:
        WrongValueError: The text is not such a value.
    """
    if setting.kind is bool:
        return _bool_of(text)
    if setting.kind is int:
        return check_value(setting, _int_of(text), folder)
    if setting.kind == tuple[int, ...]:
        ports = [_int_of(part) for part in _parts(text)]
        return check_value(setting, ports, folder)
    if setting.kind == tuple[EngineTarget, ...]:
        engines = [_engine_of_text(part) for part in _parts(text)]
        return check_value(setting, engines, folder)
    return check_value(setting, text, folder)


def check_value(setting: Setting, value: object, folder: Path) -> object:
    """Return a typed value as the tree holds it.

    Args:
        setting: Which setting.
        value: As a TOML file gives it.
        folder: What a relative path is relative to.

    Raises:
        WrongValueError: Wrong type or out of range.
    """
    if setting.kind is bool:
        return _checked_bool(value)
    if setting.kind is int:
        return _checked_int(value, setting.rule)
    if setting.kind is Path:
        return _checked_path(value, folder)
    if setting.kind == tuple[int, ...]:
        return tuple(_checked_int(item, setting.rule) for item in _items(value))
    if setting.kind == tuple[EngineTarget, ...]:
        return _checked_engines(_items(value))
    return _checked_str(value)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _bool_of(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise WrongValueError("want true or false")
    return word in _TRUE


def _int_of(text: str) -> int:
    if _INTEGER.fullmatch(text.strip()) is None:
        raise WrongValueError("want a whole number")
    return int(text)


def _engine_of_text(text: str) -> dict[str, str]:
    name, equals, url = text.partition("=")
    if not equals or "://" in name:  # an address may hold "=" itself
        return {"url": text}
    return {"name": name.strip(), "url": url.strip()}


def _checked_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError("want true or false, without quotes")
    return value


def _checked_int(value: object, rule: Rule) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongValueError("want a whole number, without quotes")
    too_low = rule.low is not None and value < rule.low
    too_high = rule.high is not None and value > rule.high
    if too_low or too_high:
        raise WrongValueError(f"want {_range(rule)}")
    return value


def _range(rule: Rule) -> str:
    return f"at least {rule.low}" if rule.high is None else f"{rule.low} to {rule.high}"


def _checked_str(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise WrongValueError("want a text in quotes, not empty")
    return value.strip()


def _checked_path(value: object, folder: Path) -> Path:
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise WrongValueError("want a path in quotes")
    try:
        return folder.absolute() / Path(value).expanduser()
    except RuntimeError as error:  # "~" without HOME and without a passwd entry (containers)
        raise WrongValueError(f"want an absolute path: {error}") from error


def _items(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise WrongValueError("want a list in [ ]")
    return value


def _checked_engines(items: Sequence[object]) -> tuple[EngineTarget, ...]:
    engines = tuple(_checked_engine(item) for item in items)
    names = [engine.name for engine in engines]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WrongValueError(f"want every engine under its own name; {twice[0]!r} is there twice")
    return engines


def _checked_engine(item: object) -> EngineTarget:
    if isinstance(item, EngineTarget):
        return item
    if not isinstance(item, Mapping) or not set(item) <= {"name", "url"} or "url" not in item:
        raise WrongValueError(
            'want name and url, for example name = "chat", url = "http://127.0.0.1:8000"'
        )
    url = _checked_url(_checked_str(item["url"]))
    return EngineTarget(_checked_str(item.get("name", urlsplit(url).netloc)), url)


def _checked_url(url: str) -> str:
    if not is_web_address(url):
        raise WrongValueError(f"want an address such as http://127.0.0.1:8000, got {url!r}")
    return url.rstrip("/")


def is_web_address(url: str) -> bool:
    """Return whether a text is an http or https address with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, a broken IPv6 address
        return False
