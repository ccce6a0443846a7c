"""Now: is the tail broken, for whom, and what the machine does at the same time."""

from __future__ import annotations

import streamlit as st

from dashboard import components, formats, state
from dashboard.answers import nothing_stored
from dashboard.data import open_lake
from dashboard.now_picture import Picture, picture
from dashboard.ranges import CHOICES, chosen, read_zoom
from stallscope.errors import StallscopeError
from stallscope.units import US_PER_SECOND

_PANELS = "now_panels"
_FINGERS = "<style>@media (max-width: 700px) {.st-key-toolbar button {min-height: 36px}}</style>"


def page() -> None:
    """Draw the page."""
    st.fragment(_live, run_every=state.REFRESH_CHOICES[_refresh_choice()])()


def _refresh_choice() -> str:
    """Return how often the page reads anew; an unknown word in the URL counts as the default."""
    asked = st.session_state.get(state.REFRESH) or st.query_params.get(state.REFRESH)
    return asked if asked in state.REFRESH_CHOICES else state.DEFAULT_REFRESH


def _live() -> None:
    """Draw all of it; runs again on every refresh."""
    if st.session_state.pop(state.REFRESH_CHANGED, False):
        st.rerun()
    now_us = state.now_us()
    try:
        shown = _read(now_us)
    except StallscopeError as error:
        _nothing(str(error), now_us)
        return
    _toolbar(shown, now_us)
    if shown.newest_us is None:
        _nothing("", now_us)
        return
    components.verdict(shown.verdict, key="now_verdict")
    if shown.panels is not None:
        components.panels(shown.panels, key=_PANELS, on_zoom=_remember_zoom)


def _read(now_us: int) -> Picture:
    """Return what to show, for the range and engine that URL and controls name.

    Raises:
        StallscopeError: The settings are wrong or the lake cannot be read.
    """
    path = state.settings().lake.path
    lake = open_lake(path)
    whole_us = -(-now_us // US_PER_SECOND) * US_PER_SECOND
    label = st.session_state.get(state.RANGE) or st.query_params.get(state.RANGE)
    label = label if label in CHOICES else state.DEFAULT_RANGE
    zoom = read_zoom(st.query_params.get(state.SINCE), st.query_params.get(state.UNTIL))
    span = chosen(label, whole_us, zoom)
    engine = st.session_state.get(state.ENGINE) or st.query_params.get(state.ENGINE, "")
    return picture(path, lake.version(), span, label, engine, whole_us)


def _toolbar(shown: Picture, now_us: int) -> None:
    """Draw host, engine, range and refresh; their values stand in the URL."""
    st.html(_FINGERS)
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{formats.plain(state.settings().host.name)}**", width="content")
        names = [state.ALL_ENGINES, *dict.fromkeys(engine.name for engine in shown.engines)]
        if len(names) > 2:  # noqa: PLR2004 - one engine needs no choice
            st.selectbox(
                "Engine",
                names,
                key=state.ENGINE,
                bind="query-params",
                width=190,
                label_visibility="collapsed",
            )
        st.segmented_control(
            "Range",
            list(CHOICES),
            default=state.DEFAULT_RANGE,
            required=True,
            key=state.RANGE,
            bind="query-params",
            label_visibility="collapsed",
            on_change=_forget_zoom,
        )
        st.selectbox(
            "Refresh",
            list(state.REFRESH_CHOICES),
            index=1,
            key=state.REFRESH,
            bind="query-params",
            width=140,
            label_visibility="collapsed",
            on_change=_rerun_page,
        )
        working, sources = shown.sources
        chips = [{"text": f"{working} of {sources} sources", "tip": "See Data health"}]
        components.freshness(
            shown.newest_us,
            now_us,
            chips if sources else [],
            key="now_freshness",
            every_s=state.REFRESH_CHOICES[_refresh_choice()],
        )


def _rerun_page() -> None:
    """Ask for a run of the whole page: how often a fragment runs is fixed when it is made."""
    st.session_state[state.REFRESH_CHANGED] = True


def _remember_zoom() -> None:
    """Put the stretch that the reader picked into the URL, or take it out."""
    zoom = st.session_state[_PANELS].zoom
    if zoom:
        st.query_params[state.SINCE], st.query_params[state.UNTIL] = str(zoom[0]), str(zoom[1])
    else:
        _forget_zoom()


def _forget_zoom() -> None:
    """Go back to a range that ends now."""
    for name in (state.SINCE, state.UNTIL):
        st.query_params.pop(name, None)


def _nothing(reason: str, now_us: int) -> None:
    """Say why there is nothing to see, and what to do."""
    components.freshness(None, now_us, [], key="now_no_freshness", every_s=None)
    data = {"banners": [nothing_stored(reason).as_data()], "tiles": []}
    components.verdict(data, key="now_nothing")
