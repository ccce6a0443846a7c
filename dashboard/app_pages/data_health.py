"""Data health: what is measured here, what is missing, exactly why, and what it costs."""

from __future__ import annotations

import streamlit as st

from dashboard import components, state
from dashboard.answers import nothing_stored
from dashboard.data import open_lake
from dashboard.health_picture import chips, health_picture
from stallscope.errors import StallscopeError
from stallscope.units import US_PER_SECOND

_EVERY_S = 5


def page() -> None:
    """Draw the page."""
    st.fragment(_live, run_every=_EVERY_S)()


def _live() -> None:
    """Draw all of it; runs again every few seconds."""
    now_us = state.now_us()
    reason = ""
    try:
        settings = state.settings()
        lake = open_lake(settings.lake.path)
        ports = settings.discovery.ports if settings.discovery.enabled else ()
        endpoints = tuple(target.url for target in settings.engines)
        whole_us = -(-now_us // US_PER_SECOND) * US_PER_SECOND
        health = health_picture(settings.lake.path, lake.version(), ports, endpoints, whole_us)
    except StallscopeError as error:
        reason, health = str(error), None
    if health is None or health.newest_us is None:
        components.freshness(None, now_us, [], key="health_no_freshness", every_s=_EVERY_S)
        banner = nothing_stored(reason).as_data()
        components.verdict({"banners": [banner], "tiles": []}, key="health_nothing")
        return
    components.freshness(
        health.newest_us, now_us, chips(health), key="health_freshness", every_s=_EVERY_S
    )
    components.health(health.data, key="health_table")
