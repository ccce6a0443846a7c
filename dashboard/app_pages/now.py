"""Now: is the tail broken, for whom, and what the machine does at the same time."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import components, state, toolbar
from dashboard.answers import nothing_stored
from dashboard.data import open_lake
from dashboard.now_picture import Picture, picture
from stallscope.errors import StallscopeError

_PANELS = "now_panels"


def page() -> None:
    """Draw the page."""
    st.fragment(_live, run_every=toolbar.refresh_every_s())()


def _live() -> None:
    """Draw all of it; runs again on every refresh."""
    toolbar.follow_refresh_choice()
    now_us = state.now_us()
    try:
        shown = _read(now_us)
    except StallscopeError as error:
        _nothing(str(error), now_us)
        return
    names = list(dict.fromkeys(engine.name for engine in shown.engines))
    toolbar.toolbar(names, shown.sources, shown.newest_us, now_us, key="now_freshness")
    if shown.newest_us is None:
        _nothing("", now_us)
        return
    components.verdict(shown.verdict, key="now_verdict")
    if shown.panels is not None:
        components.panels(
            shown.panels, key=_PANELS, on_zoom=partial(toolbar.remember_zoom, _PANELS)
        )


def _read(now_us: int) -> Picture:
    """Return what to show, for the range and engine that URL and controls name.

    Raises:
        StallscopeError: The settings are wrong or the lake cannot be read.
    """
    path = state.settings().lake.path
    lake = open_lake(path)
    whole_us = toolbar.whole_second_us(now_us)
    span, label = toolbar.asked_range(whole_us)
    return picture(path, lake.version(), span, label, toolbar.asked_engine(), whole_us)


def _nothing(reason: str, now_us: int) -> None:
    """Say why there is nothing to see, and what to do."""
    components.freshness(None, now_us, [], key="now_no_freshness", every_s=None)
    data = {"banners": [nothing_stored(reason).as_data()], "tiles": []}
    components.verdict(data, key="now_nothing")
