"""Every setting, as one frozen tree: from a file, the environment and flags.

A flag wins over the environment, that over the file, that over the default. The environment
variable of ``lake.path`` is ``STALLSCOPE_LAKE_PATH``, and so for each; an empty one counts as
not set. The tree is built by `load` and handed around; nothing reads the environment later.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import SettingsError
from stallscope.settings_contradictions import find_contradictions
from stallscope.settings_fields import EngineTarget
from stallscope.settings_sources import Given, read_environment, read_file, read_flags
from stallscope.settings_tree import (
    DECLARED,
    SECTIONS,
    CollectSettings,
    DashboardSettings,
    DiscoverySettings,
    HostSettings,
    LakeSettings,
    OtlpSettings,
    Settings,
    SourceSettings,
    SqlSettings,
    TapSettings,
)

__all__ = [
    "DECLARED",
    "SERVICE_LAKE",
    "CollectSettings",
    "DashboardSettings",
    "DiscoverySettings",
    "EngineTarget",
    "HostSettings",
    "LakeSettings",
    "OtlpSettings",
    "Resolved",
    "Settings",
    "SourceSettings",
    "SqlSettings",
    "TapSettings",
    "default_lake",
    "default_tap_socket",
    "find_file",
    "load",
    "resolve",
]

_SHARED_SOCKET = Path("/run/stallscope/tap.sock")
SERVICE_LAKE = Path("/var/lib/stallscope")
"""Where a service keeps its lake."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the sources of settings came to.

    Attributes:
        values: Every setting by its dotted name.
        origins: Where each value comes from, for people.
        problems: Everything that was refused; when there is any, `settings` must not be used.
    """

    values: Mapping[str, object]
    origins: Mapping[str, str]
    problems: tuple[SettingsError, ...]

    @property
    def settings(self) -> Settings:
        """Return the tree."""
        return _build(self.values)


def load(file: Path | None, env: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Return the settings in force.

    Args:
        file: TOML file to read, or None for none; see `find_file`.
        env: The environment.
        flags: Values by dotted name, as text or typed.

    Raises:
        SettingsError: A key is unknown, a value wrong, or the file unreadable. The first problem
            is named, with the number of others.
    """
    resolved = resolve(file, env, flags)
    if not resolved.problems:
        return resolved.settings
    first, *others = resolved.problems
    if not others:
        raise first
    more = f"{len(others)} more: see `stallscope settings --check`."
    raise SettingsError(first.message, f"{first.hint} {more}".strip())


def resolve(file: Path | None, env: Mapping[str, str], flags: Mapping[str, object]) -> Resolved:
    """Return every value with its origin, and every problem instead of the first.

    Raises:
        SettingsError: The file cannot be read at all.
    """
    sources = [
        *([read_file(file, DECLARED)] if file is not None else []),
        read_environment(env, DECLARED),
        read_flags(flags, DECLARED),
    ]
    given: dict[str, Given] = {}
    problems: list[SettingsError] = []
    for source in sources:
        given.update(source.values)
        problems += source.problems
    values, origins = _with_defaults(given, env, problems)
    problems += find_contradictions(values, origins)
    return Resolved(values, origins, tuple(problems))


def find_file(env: Mapping[str, str]) -> Path | None:
    """Return the settings file to read when no flag names one, or None.

    In this order: STALLSCOPE_CONFIG, ~/.config/stallscope/stallscope.toml,
    /etc/stallscope/stallscope.toml. A file that the environment names need not exist here: then
    reading it says so.
    """
    if env.get("STALLSCOPE_CONFIG"):
        return Path(env["STALLSCOPE_CONFIG"])
    home = _home(env)
    personal = [] if home is None else [_base(env, "XDG_CONFIG_HOME", home / ".config")]
    for folder in [*personal, Path("/etc")]:
        file = folder / "stallscope" / "stallscope.toml"
        if file.is_file():
            return file
    return None


def default_lake(env: Mapping[str, str]) -> Path | None:
    """Return where the lake is when nobody says, or None when there is no home either.

    systemd names the folder of a unit's state in STATE_DIRECTORY (systemd.exec(5)); in a pod
    Kubernetes sets KUBERNETES_SERVICE_HOST. Both mean: this is a service.
    """
    if env.get("STATE_DIRECTORY"):
        return Path(env["STATE_DIRECTORY"].split(":")[0])
    if env.get("KUBERNETES_SERVICE_HOST"):
        return SERVICE_LAKE
    home = _home(env)
    if home is None:
        return None
    return _base(env, "XDG_STATE_HOME", home / ".local/state") / "stallscope"


def default_tap_socket(env: Mapping[str, str]) -> Path:
    """Return where taps deliver when nobody says: where they look, as far as it can be written.

    They read STALLSCOPE_TAP_SOCKET, then look for /run/stallscope/tap.sock, then under
    XDG_RUNTIME_DIR.
    """
    if env.get("STALLSCOPE_TAP_SOCKET"):
        return Path(env["STALLSCOPE_TAP_SOCKET"]).absolute()
    folder = _SHARED_SOCKET.parent
    if os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
        return _SHARED_SOCKET
    return _base(env, "XDG_RUNTIME_DIR", Path("/run")) / "stallscope/tap.sock"


def _home(env: Mapping[str, str]) -> Path | None:
    if env.get("HOME"):
        return Path(env["HOME"])
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor a passwd entry: a container with a bare user id
        return None


def _base(env: Mapping[str, str], variable: str, otherwise: Path) -> Path:
    """Return an XDG base folder; the specification says to ignore relative ones."""
    named = Path(env.get(variable, ""))
    return named if named.is_absolute() else otherwise


def _default_host(env: Mapping[str, str]) -> str:
    named = env.get("NODE_NAME") or env.get("K8S_NODE_NAME")
    return named or socket.gethostname() or "localhost"


def _with_defaults(
    given: Mapping[str, Given], env: Mapping[str, str], problems: list[SettingsError]
) -> tuple[dict[str, object], dict[str, str]]:
    values: dict[str, object] = {key: setting.default for key, setting in DECLARED.items()}
    values |= {
        "lake.path": default_lake(env),
        "host.name": _default_host(env),
        "taps.socket": default_tap_socket(env),
    }
    values |= {key: one.value for key, one in given.items()}
    origins = dict.fromkeys(DECLARED, "default") | {key: one.origin for key, one in given.items()}
    if values["lake.path"] is None:
        problems.append(
            SettingsError(
                "lake.path is not set and there is no home directory to put the lake in",
                "Set lake.path, STALLSCOPE_LAKE_PATH or --lake.",
            )
        )
    return values, origins


def _build(values: Mapping[str, object]) -> Settings:
    sections: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    top = {name: kind(**sections[name]) for name, kind in SECTIONS.items()}
    return Settings(**top, **sections[""])  # type: ignore[arg-type]
