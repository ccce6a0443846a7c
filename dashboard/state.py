"""What the pages share: the settings, the clock, and the names that stand in URLs and state."""

from __future__ import annotations

import os

import streamlit as st

from stallscope.clock import SystemClock
from stallscope.settings import Settings, find_file, load

ENGINE = "engine"
RANGE = "range"
REFRESH = "refresh"
SINCE = "since"
UNTIL = "until"
LINK = "link"
REQUEST = "request"
CONTEXT = "context"
ROUTE = "route"
ORDER = "by"
QUERY = "q"
JOB = "job"

ALL_ENGINES = "All engines"
HOTTEST = "Hottest link"
REFRESH_CHOICES = {"every 1 s": 1, "every 2 s": 2, "every 5 s": 5, "not refreshed": None}
DEFAULT_RANGE = "15 min"
DEFAULT_REFRESH = "every 2 s"
REFRESH_CHANGED = "refresh_changed"


@st.cache_resource(show_spinner=False)
def settings() -> Settings:
    """Return the settings in force, read once per process.

    Raises:
        SettingsError: A setting is wrong.
    """
    return load(find_file(os.environ), os.environ, {})


def now_us() -> int:
    """Return the present in UTC microseconds."""
    return SystemClock().now().wall_us
