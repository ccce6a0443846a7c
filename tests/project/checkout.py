"""This checkout: where it is and which packages it ships."""

from __future__ import annotations

import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = frozenset(PROJECT["tool"]["uv"]["build-backend"]["module-name"])
