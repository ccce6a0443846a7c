"""Where the collector listens, and whether the taps are switched on."""

from __future__ import annotations

import os

_NAME = "stallscope/tap.sock"


def socket_paths() -> list[str]:
    """Return the paths to try, in this order; the setting alone when there is one."""
    setting = os.environ.get("STALLSCOPE_TAP_SOCKET")
    if setting:
        return [setting]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [f"/run/{_NAME}", *([f"{runtime}/{_NAME}"] if runtime else [])]


def is_switched_off() -> bool:
    """Return whether the environment says STALLSCOPE_TAP=off."""
    return os.environ.get("STALLSCOPE_TAP", "").strip().lower() in {"off", "0", "false", "no"}
