from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard import state
from tests.dashboard import lake_fixture

END_US = 1_795_000_000 * lake_fixture.S
Run = Callable[..., AppTest]


@pytest.fixture(scope="session")
def golden_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with two engines and four disks, fifteen minutes up to `END_US`."""
    return lake_fixture.build(tmp_path_factory.mktemp("golden") / "lake", END_US)


@pytest.fixture(scope="session")
def gpu_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same host with three GPUs, the first of them busy."""
    host = lake_fixture.Host(gpus=3)
    return lake_fixture.build(tmp_path_factory.mktemp("gpu") / "lake", END_US, host=host)


@pytest.fixture(scope="session")
def tapped_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake whose engines have taps, five minutes up to `END_US`."""
    host = lake_fixture.Host(taps=True)
    return lake_fixture.build(tmp_path_factory.mktemp("tapped") / "lake", END_US, 300, host)


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    """Forget what another test's lake answered."""
    st.cache_data.clear()
    st.cache_resource.clear()
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def at_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the present of the pages."""
    return lambda now_us: monkeypatch.setattr(state, "now_us", lambda: now_us)


def blocks(app: AppTest, name: str) -> list[dict[str, Any]]:
    """Return the data of our components of that name on the page."""
    return [
        json.loads(element.proto.json)
        for element in app.get("bidi_component")
        if element.proto.component_name == f"stallscope.{name}"
    ]


def text_of(data: object) -> str:
    """Return everything a component was told, as text."""
    return json.dumps(data, ensure_ascii=False).replace("\u00a0", " ")
