"""Where settings come from: a TOML file, the environment, flags.

Each reader returns what it understood and everything it refused, each with its place, so that one
run of `settings --check` names all problems at once.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stallscope.errors import SettingsError
from stallscope.settings_fields import Setting, WrongValueError, check_value, read_text

PREFIX = "STALLSCOPE_"
NOT_SETTINGS = frozenset(
    {
        "STALLSCOPE_CONFIG",
        "STALLSCOPE_TAP_SOCKET",
        "STALLSCOPE_CORPUS",
        "STALLSCOPE_FAKE_NVML",
        "STALLSCOPE_SUPERVISOR",
    }
)
"""Variables with our prefix that other parts read."""

_KUBERNETES = re.compile(
    r"STALLSCOPE_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes injects into every pod for a Service called stallscope or stallscope-something
(kubernetes.io, "Accessing the Service", environment variables)."""
_KUBERNETES_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

_HEADER = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?\s*(#.*)?")
_KEY = re.compile(r"""\s*["']?([\w-]+)["']?\s*=""")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody set, and where."""

    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Source:
    """What one source of settings holds.

    Attributes:
        values: Good values by dotted name.
        problems: Everything refused.
    """

    values: dict[str, Given] = field(default_factory=dict)
    problems: list[SettingsError] = field(default_factory=list)


def read_file(file: Path, declared: Mapping[str, Setting]) -> Source:
    """Return what a TOML file sets.

    Raises:
        SettingsError: The file is not there, not readable or not TOML.
    """
    text = _read_toml_text(file)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"{file}: not TOML: {error}"
        raise SettingsError(msg, "Compare with `stallscope settings --example`.") from error
    source = Source()
    lines = _lines_of(text)
    for key, value in _flatten(tables, declared):
        place = f"{file}:{lines[key]}" if key in lines else str(file)
        _take(source, declared, key, value, place, file.parent)
    return source


def read_environment(env: Mapping[str, str], declared: Mapping[str, Setting]) -> Source:
    """Return what the environment sets; variables without our prefix are none of our business."""
    source = Source()
    by_variable = {setting.environment: setting for setting in declared.values()}
    for variable, text in sorted(env.items()):
        if _is_ours(variable, text):
            place = f"environment {variable}"
            if variable in by_variable:
                _take_text(source, by_variable[variable], text, place)
            else:
                source.problems.append(_unknown(place, variable, list(by_variable)))
    return source


def read_flags(flags: Mapping[str, object], declared: Mapping[str, Setting]) -> Source:
    """Return what flags set: texts are read as in the environment, other values are checked."""
    source = Source()
    for key, value in flags.items():
        if isinstance(value, str) and key in declared:
            _take_text(source, declared[key], value, "flag")
        else:
            _take(source, declared, key, value, "flag", Path.cwd())
    return source


def _is_ours(variable: str, text: str) -> bool:
    if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or not text.strip():
        return False
    injected = _KUBERNETES.fullmatch(variable) is not None
    # STALLSCOPE_DASHBOARD_PORT is a setting of ours and, beside a Service stallscope-dashboard,
    # also injected: then it reads tcp://10.0.0.1:8501.
    is_port = variable.endswith("_PORT") and "_SERVICE_" not in variable
    if injected and is_port:
        return _KUBERNETES_ADDRESS.match(text) is None
    return not injected


def _take_text(source: Source, setting: Setting, text: str, place: str) -> None:
    try:
        value = read_text(setting, text, Path.cwd())
    except WrongValueError as error:
        source.problems.append(_wrong(place, setting, text, error))
    else:
        source.values[setting.key] = Given(value, place)


def _take(
    source: Source,
    declared: Mapping[str, Setting],
    key: str,
    value: object,
    place: str,
    folder: Path,
) -> None:
    setting = declared.get(key)
    if setting is None:
        source.problems.append(_unknown(place, key, list(declared)))
        return
    try:
        source.values[key] = Given(check_value(setting, value, folder), place)
    except WrongValueError as error:
        source.problems.append(_wrong(place, setting, value, error))


def _wrong(place: str, setting: Setting, value: object, error: WrongValueError) -> SettingsError:
    shown = "(not shown)" if setting.rule.secret else repr(value)
    return SettingsError(f"{place}: {setting.key} = {shown}: {error}", setting.rule.meaning)


def _unknown(place: str, name: str, known: list[str]) -> SettingsError:
    sections = {key.partition(".")[0] for key in known}
    near = difflib.get_close_matches(name, [*known, *sorted(sections)], n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}?" if near else "See `stallscope settings --example`."
    return SettingsError(f"{place}: unknown setting {name}", hint)


def _read_toml_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # some editors put a byte-order mark in front
    except OSError as error:
        msg = f"cannot read settings from {file}: {error.strerror}"
        raise SettingsError(msg, "Name a readable file with --config.") from error
    except UnicodeDecodeError as error:
        msg = f"{file}: not UTF-8: {error.reason} at byte {error.start}"
        raise SettingsError(msg, "Save it as UTF-8.") from error


def _flatten(
    tables: Mapping[str, object], declared: Mapping[str, Setting]
) -> Iterator[tuple[str, object]]:
    """Yield dotted names with their values; an unknown section stays whole."""
    sections = {key.partition(".")[0] for key in declared if "." in key}
    for name, value in tables.items():
        if name in sections and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _lines_of(text: str) -> dict[str, int]:
    """Return the line of each dotted name. tomllib tells no places, so this looks for itself.

    A guess for messages only: lines inside a multi-line text may be taken for keys.
    """
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.fullmatch(line)
        if header is not None:
            section = header[1]
            lines.setdefault(section, number)
        elif (key := _KEY.match(line)) is not None:
            lines.setdefault(f"{section}.{key[1]}" if section else key[1], number)
    return lines
