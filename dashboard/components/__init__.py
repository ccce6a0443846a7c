"""Our own components: panels on one time axis, and blocks of text that Streamlit has no shape for.

Their scripts are files in ``assets``, served by Streamlit to the browser once. All text reaches the
page as text nodes: no name in the data can become markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from stallscope.units import US_PER_SECOND

ASSETS = Path(__file__).resolve().parent / "assets"
_NAMES = ("panels", "verdict", "freshness", "health", "sheet")
_DISTRIBUTION = "stallscope"


def panels(data: Mapping[str, Any], *, key: str, on_zoom: Callable[[], None]) -> Any:  # noqa: ANN401
    """Draw panels on one time axis.

    Args:
        data: What `dashboard.charts.figure` returns.
        key: Name of this instance; the same key keeps zoom, cursor and selection.
        on_zoom: Called after the reader zoomed or went back to the whole range.

    Returns:
        The component's result: inside ``on_zoom`` its ``zoom`` is two moments in UTC microseconds,
        or empty for the whole range.
    """
    return _mount("panels")(data=dict(data), key=key, on_zoom_change=on_zoom)


def freshness(
    newest_us: int | None,
    now_us: int,
    chips: Sequence[Mapping[str, str]],
    *,
    key: str,
    every_s: int | None,
) -> None:
    """Draw how old the data is, further chips and the clock.

    Args:
        newest_us: Time of the newest measurement, None when there is none.
        now_us: The present.
        chips: ``text`` and ``tip`` of each further chip.
        key: Name of this instance.
        every_s: How often the page refreshes, None when it does not.
    """
    newest = None if newest_us is None else newest_us / US_PER_SECOND
    data = {
        "newest": newest,
        "now": now_us / US_PER_SECOND,
        "every": every_s,
        "chips": [dict(chip) for chip in chips],
    }
    _mount("freshness")(data=data, key=key)


def verdict(data: Mapping[str, Any], *, key: str) -> None:
    """Draw banners and tiles."""
    _mount("verdict")(data=dict(data), key=key)


def health(data: Mapping[str, Any], *, key: str) -> None:
    """Draw what this host can answer, where engines were looked for, and the table of sources."""
    _mount("health")(data=dict(data), key=key)


def sheet(data: Mapping[str, Any], *, key: str, on_pick: Callable[[], None] | None = None) -> None:
    """Draw the data of a `dashboard.sheets.Sheet`.

    Args:
        data: What to draw.
        key: Name of this instance.
        on_pick: Called after the reader picked a cell or link that can be picked; the component's
            ``pick`` is then what changes in the URL. Without it such a click loads the page anew.
    """
    heard = {} if on_pick is None else {"on_pick_change": on_pick}
    _mount("sheet")(data=dict(data), key=key, **heard)


def _mount(name: str) -> Callable[..., Any]:
    """Return the command that mounts a component."""
    _register_assets()
    mount: Callable[..., Any] = st.components.v2.component(
        f"{_DISTRIBUTION}.{name}", js=f"{name}.js", css=f"{name}.css"
    )
    return mount


def _register_assets() -> None:
    """Tell Streamlit where our files are.

    Streamlit finds asset folders by scanning installed distributions for a pyproject.toml inside
    the package that bears the distribution's name. Ours lie in package dashboard of distribution
    stallscope, which that scan cannot express, so the same manifest is handed over here.
    """
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(f"{_DISTRIBUTION}.{_NAMES[0]}") is None:
        configs = [ComponentConfig(name=name, asset_dir=ASSETS.name) for name in _NAMES]
        manager.register_from_manifest(
            ComponentManifest(name=_DISTRIBUTION, version="1", components=configs), ASSETS.parent
        )
