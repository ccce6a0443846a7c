"""The line on top of a live page: host, engine, range, refresh and freshness, all in the URL."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import components, formats, state
from dashboard.ranges import CHOICES, Range, chosen, read_zoom
from stallscope.units import US_PER_SECOND

_FINGERS = "<style>@media (max-width: 700px) {.st-key-toolbar button {min-height: 36px}}</style>"


def refresh_every_s() -> int | None:
    """Return how often a live page reads anew, None when it does not."""
    return state.REFRESH_CHOICES[_refresh_choice()]


def _refresh_choice() -> str:
    """Return the chosen word; one that is unknown in the URL counts as the default."""
    asked = st.session_state.get(state.REFRESH) or st.query_params.get(state.REFRESH)
    return asked if asked in state.REFRESH_CHOICES else state.DEFAULT_REFRESH


def follow_refresh_choice() -> None:
    """Run the whole page again when the reader chose another pace.

    Called first in the fragment of a live page: how often a fragment runs is fixed when it is made.
    """
    if st.session_state.pop(state.REFRESH_CHANGED, False):
        st.rerun()


def whole_second_us(now_us: int) -> int:
    """Return the end of the second that is going on, so that tabs share an answer."""
    return -(-now_us // US_PER_SECOND) * US_PER_SECOND


def asked_range(whole_us: int) -> tuple[Range, str]:
    """Return the range that URL and controls name, and the choice in words.

    Args:
        whole_us: The present, whole seconds.
    """
    label = st.session_state.get(state.RANGE) or st.query_params.get(state.RANGE)
    label = label if label in CHOICES else state.DEFAULT_RANGE
    zoom = read_zoom(st.query_params.get(state.SINCE), st.query_params.get(state.UNTIL))
    return chosen(label, whole_us, zoom), label


def asked_engine() -> str:
    """Return the name of the engine that URL and controls name, empty for none in particular."""
    return str(st.session_state.get(state.ENGINE) or st.query_params.get(state.ENGINE, ""))


def toolbar(
    names: Sequence[str], sources: tuple[int, int], newest_us: int | None, now_us: int, *, key: str
) -> None:
    """Draw the line.

    Args:
        names: Engines to choose from.
        sources: (working, all) sources.
        newest_us: Time of the newest measurement, None when there is none.
        now_us: The present.
        key: Name of the freshness in it.
    """
    st.html(_FINGERS)
    with st.container(key="toolbar", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{formats.plain(state.settings().host.name)}**", width="content")
        _choices(names)
        working, all_of_them = sources
        chips = [{"text": f"{working} of {all_of_them} sources", "tip": "See Data health"}]
        components.freshness(
            newest_us, now_us, chips if all_of_them else [], key=key, every_s=refresh_every_s()
        )


def _choices(names: Sequence[str]) -> None:
    """Draw what can be chosen; the values stand in the URL."""
    if len(names) > 1:
        st.selectbox(
            "Engine",
            [state.ALL_ENGINES, *names],
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
        on_change=forget_zoom,
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


def _rerun_page() -> None:
    """Ask for a run of the whole page."""
    st.session_state[state.REFRESH_CHANGED] = True


def remember_zoom(panels_key: str) -> None:
    """Put the stretch that the reader picked in the panels into the URL, or take it out."""
    zoom = st.session_state[panels_key].zoom
    if zoom:
        st.query_params[state.SINCE], st.query_params[state.UNTIL] = str(zoom[0]), str(zoom[1])
    else:
        forget_zoom()


def forget_zoom() -> None:
    """Go back to a range that ends now."""
    for name in (state.SINCE, state.UNTIL):
        st.query_params.pop(name, None)
