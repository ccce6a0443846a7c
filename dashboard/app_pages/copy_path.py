"""Copy path: how full the way between host and GPU is, and whether the tail follows it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from dashboard import (
    components,
    copy_path_evidence,
    copy_path_topology,
    copy_path_tree,
    formats,
    state,
    toolbar,
)
from dashboard.answers import nothing_stored
from dashboard.copy_path_colours import colours
from dashboard.copy_path_contention import Contention, Pair
from dashboard.copy_path_picture import CopyPicture, copy_picture
from dashboard.copy_path_scatter import HEIGHTS, scatter
from dashboard.copy_path_topology import Topology
from dashboard.data import open_lake
from stallscope.errors import StallscopeError

_PANELS = "copy_panels"
_WIDE_ONLY = "<style>@media (max-width: 700px) {.st-key-copy_tree {display: none}}</style>"


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
    toolbar.toolbar(names, shown.sources, shown.newest_us, now_us, key="copy_freshness")
    if shown.newest_us is None or shown.verdict is None:
        _nothing("", now_us)
        return
    components.verdict(shown.verdict, key="copy_verdict")
    _middle(shown, now_us)
    if shown.links is not None:
        components.sheet(shown.links, key="copy_links")
    if shown.topology is not None:
        _topology(shown.topology, now_us)


def _read(now_us: int) -> CopyPicture:
    """Return what to show, for the range, engine and link that URL and controls name.

    Raises:
        StallscopeError: The settings are wrong or the lake cannot be read.
    """
    path = state.settings().lake.path
    lake = open_lake(path)
    whole_us = toolbar.whole_second_us(now_us)
    span, _ = toolbar.asked_range(whole_us)
    link = str(st.session_state.get(state.LINK) or st.query_params.get(state.LINK, ""))
    return copy_picture(path, lake.version(), span, toolbar.asked_engine(), link, whole_us)


def _middle(shown: CopyPicture, now_us: int) -> None:
    """Draw the evidence beside the panels, or the panels alone where there is no engine."""
    if shown.contention is None:
        _panels(shown)
        return
    left, right = st.columns([0.4, 0.6], gap="medium")
    with left:
        _evidence(shown.contention, now_us)
    with right:
        _panels(shown)
        every = copy_path_evidence.compared(shown.contention)
        if every is not None:
            components.sheet(every.as_data(), key="copy_every_link")


def _panels(shown: CopyPicture) -> None:
    """Draw the panels on one time axis."""
    if shown.panels is not None:
        components.panels(
            shown.panels, key=_PANELS, on_zoom=partial(toolbar.remember_zoom, _PANELS)
        )


def _evidence(contention: Contention, now_us: int) -> None:
    """Draw ITL spikes against copy-queue contention: in words, as dots, in figures."""
    label = "zoom" if st.query_params.get(state.SINCE) else toolbar.asked_range(now_us)[1]
    components.sheet(
        copy_path_evidence.headline(contention, label, now_us).as_data(), key="copy_headline"
    )
    if contention.chosen is not None:
        if contention.others:
            _choose(contention.chosen, contention.others)
        _dots(contention, contention.chosen)
    components.sheet(copy_path_evidence.figures(contention).as_data(), key="copy_figures")


def _choose(chosen: Pair, others: Sequence[Pair]) -> None:
    """Draw the choice of a link; the value stands in the URL."""
    st.selectbox(
        "Link",
        [state.HOTTEST, *sorted(pair.name for pair in (chosen, *others))],
        key=state.LINK,
        bind="query-params",
        width=190,
        label_visibility="collapsed",
    )


def _dots(contention: Contention, pair: Pair) -> None:
    """Draw one chart per signal of the link."""
    for place, facet in enumerate(pair.facets):
        st.echarts_chart(
            scatter(contention, pair, facet, colours(st.context.theme.type)),
            height=HEIGHTS[min(place, 1)],
            key=f"copy_dots_{facet.signal.column}",
            alt=copy_path_evidence.alternative(contention, pair, facet),
        )


def _topology(topology: Topology, now_us: int) -> None:
    """Draw what hangs where: findings in words, the tree, and the same as a list."""
    components.sheet(
        copy_path_topology.findings_sheet(topology, now_us).as_data(), key="copy_findings"
    )
    if not topology.nodes:
        return
    st.html(_WIDE_ONLY)
    with st.container(key="copy_tree"):
        st.echarts_chart(
            copy_path_tree.tree(topology, colours(st.context.theme.type)),
            height=copy_path_tree.height(topology),
            key="copy_tree_chart",
            alt=copy_path_tree.alternative(topology),
        )
    with st.expander(formats.plain(f"{len(topology.nodes)} nodes as a list")):
        components.sheet(copy_path_topology.list_sheet(topology).as_data(), key="copy_nodes")


def _nothing(reason: str, now_us: int) -> None:
    """Say why there is nothing to see, and what to do."""
    components.freshness(None, now_us, [], key="copy_no_freshness", every_s=None)
    data = {"banners": [nothing_stored(reason).as_data()], "tiles": []}
    components.verdict(data, key="copy_nothing")
