"""The GPUs and bridges that the lake knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from analytics.facts import newest_facts
from dashboard.data import Question, connected, open_lake, rows

_UUID_HEAD = len("GPU-12345678")


@dataclass(frozen=True, slots=True)
class Gpu:
    """What is known of a GPU.

    Attributes:
        id: Device id in the signals.
        name: Short name for people: ``GPU 0``.
        model: Product name; empty when unknown.
    """

    id: int
    name: str
    model: str


@dataclass(frozen=True, slots=True)
class Devices:
    """GPUs and the names of bridges, by device id."""

    gpus: Mapping[int, Gpu]
    bridges: Mapping[int, str]

    def gpu(self, device: int) -> Gpu:
        """Return a GPU, by its number alone when it has no name yet."""
        return self.gpus.get(device, Gpu(device, f"GPU #{device}", ""))


@st.cache_data(max_entries=8, show_spinner=False)
def read_devices(lake_path: Path, version: tuple[str, ...]) -> Devices:
    """Return all GPUs and bridges; read anew only when there are new facts.

    Args:
        lake_path: Folder of the lake.
        version: What `dashboard.engines.facts_version` returns: part of the cache key.

    Raises:
        LakeError: A manifest cannot be read.
    """
    del version
    with connected(open_lake(lake_path), Question(("device",))) as connection:
        found = rows(connection, newest_facts("device"))
    gpus = [row for row in found if row["kind"] == "gpu"]
    return Devices(
        gpus={row["device"]: _gpu(row, gpus) for row in gpus},
        bridges={row["device"]: row["name"] for row in found if row["kind"] == "bridge"},
    )


def _gpu(row: Mapping[str, Any], gpus: list[dict[str, Any]]) -> Gpu:
    """Return one GPU."""
    return Gpu(id=row["device"], name=_name(row, gpus), model=row["model"] or "")


def _name(row: Mapping[str, Any], gpus: list[dict[str, Any]]) -> str:
    """Return a short name: the index, and the head of the UUID where that tells more."""
    head = str(row["name"])[:_UUID_HEAD]
    if row["gpu_index"] is None:
        return head
    name = f"GPU {row['gpu_index']}{' MIG' if row['role'] == 'mig' else ''}"
    same = [one for one in gpus if all(one[key] == row[key] for key in ("gpu_index", "role"))]
    return f"{name} {head}" if same[1:] else name
