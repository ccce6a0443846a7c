"""Requests: which were slow, which pauses were long, and one request from arrival to end."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import components, state, toolbar
from dashboard.answers import nothing_stored
from dashboard.copy_path_colours import colours
from dashboard.data import open_lake
from dashboard.engines import facts_version, names
from dashboard.request_answers import install_sheet
from dashboard.request_facts import facts_sheet, nothing_sheet, pauses_sheet
from dashboard.request_life import find_life, request_number
from dashboard.request_picture import RequestPicture, request_picture
from dashboard.request_rows import ORDERS, Asked
from dashboard.request_spread import Spread
from dashboard.request_spread_chart import HEIGHT, alternative, chart
from dashboard.request_timeline import timeline
from dashboard.request_words import ALL_LENGTHS, ALL_ROUTES, class_words
from dashboard.sheets import Sheet
from stallscope.errors import StallscopeError

_PICKED = ("request_slowest", "request_pauses", "request_facts", "request_missing")
_MAY_CHANGE = frozenset({state.REQUEST, state.SINCE, state.UNTIL})
"""Names in the URL that a pick may change; the others belong to their controls."""


def page() -> None:
    """Draw the page."""
    st.fragment(_live, run_every=toolbar.refresh_every_s())()


def _live() -> None:
    """Draw all of it; runs again on every refresh."""
    toolbar.follow_refresh_choice()
    now_us = state.now_us()
    whole_us = toolbar.whole_second_us(now_us)
    try:
        asked = str(st.query_params.get(state.REQUEST, ""))
        if asked:
            _one_request(asked, whole_us)
            return
        shown = request_picture(
            state.settings().lake.path, _asked(whole_us), toolbar.asked_engine(), whole_us
        )
    except StallscopeError as error:
        _nothing(str(error), now_us)
        return
    toolbar.toolbar(shown.engines, shown.sources, shown.newest_us, now_us, key="request_freshness")
    if shown.newest_us is None or shown.verdict is None or shown.sheets is None:
        _nothing("", now_us)
        return
    components.verdict(shown.verdict, key="request_verdict")
    if shown.blind:
        components.sheet(install_sheet().as_data(), key="request_install")
        return
    components.sheet(shown.sheets["figures"], key="request_figures")
    _choices(shown)
    _tables(shown)
    _spreads(shown.spreads)
    components.sheet(shown.sheets["classes"], key="request_classes")


def _asked(whole_us: int) -> Asked:
    """Return what URL and controls name, but for the engine."""
    span, _ = toolbar.asked_range(whole_us)
    route = _choice(state.ROUTE)
    return Asked(
        span,
        context=class_words().get(_choice(state.CONTEXT), ""),
        route="" if route == ALL_ROUTES else route,
        order=ORDERS.get(_choice(state.ORDER), "e2e_us"),
    )


def _choice(name: str) -> str:
    """Return what a control or, before it is drawn, the URL says."""
    return str(st.session_state.get(name) or st.query_params.get(name, ""))


def _choices(shown: RequestPicture) -> None:
    """Draw what can be chosen; the values stand in the URL."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _select("Context length", [ALL_LENGTHS, *class_words()], state.CONTEXT, 150)
        routes = [ALL_ROUTES, *shown.routes]
        chosen = _choice(state.ROUTE)
        if chosen and chosen not in routes:
            routes.append(chosen)
        _select("Route", routes, state.ROUTE, 230)
        _select("Slowest by", list(ORDERS), state.ORDER, 150)


def _select(label: str, options: Sequence[str], key: str, width: int) -> None:
    """Draw one choice."""
    st.selectbox(
        label,
        options,
        key=key,
        bind="query-params",
        width=width,
        label_visibility="collapsed",
    )


def _tables(shown: RequestPicture) -> None:
    """Draw the longest pauses beside the slowest requests."""
    assert shown.sheets is not None  # noqa: S101 - for the type checker
    left, right = st.columns([0.44, 0.56], gap="medium")
    with left:
        components.sheet(shown.sheets["pauses"], key="request_pauses", on_pick=_picked)
    with right:
        components.sheet(shown.sheets["slowest"], key="request_slowest", on_pick=_picked)


def _picked() -> None:
    """Put what the reader picked into the URL."""
    for key in _PICKED:
        picked = st.session_state.get(key)
        changes = getattr(picked, "pick", None) or {}
        for name, value in changes.items():
            if name not in _MAY_CHANGE:
                continue
            if value:
                st.query_params[name] = str(value)
            else:
                st.query_params.pop(name, None)


def _spreads(spreads: Sequence[Spread]) -> None:
    """Draw the distributions side by side."""
    for column, spread in zip(st.columns(len(spreads), gap="medium"), spreads, strict=True):
        with column:
            head = Sheet(title=spread.title, aside=spread.aside, notes=_reason(spread))
            components.sheet(head.as_data(), key=f"request_head_{spread.key}")
            if spread.reason:
                continue
            st.echarts_chart(
                chart(spread, colours(st.context.theme.type)),
                height=HEIGHT,
                key=f"request_spread_{spread.key}",
                alt=alternative(spread),
            )


def _reason(spread: Spread) -> list[tuple[str, ...]]:
    """Return why a distribution is not drawn, if it is not."""
    return [(spread.reason,)] if spread.reason else []


def _one_request(asked: str, whole_us: int) -> None:
    """Draw one request.

    Raises:
        StallscopeError: The settings are wrong or the lake cannot be read.
    """
    path = state.settings().lake.path
    number = request_number(asked)
    life = None if number is None else find_life(path, number, whole_us)
    if life is None:
        components.sheet(nothing_sheet(asked).as_data(), key="request_missing", on_pick=_picked)
        return
    engines, _ = names(path, facts_version(open_lake(path)))
    engine = next(
        (one.name for one in engines if one.id == life.request.engine),
        f"engine {life.request.engine}",
    )
    components.sheet(
        facts_sheet(life, engine, whole_us).as_data(), key="request_facts", on_pick=_picked
    )
    components.panels(timeline(life, engine), key=f"request_panels_{number}", on_zoom=_keep_zoom)
    if life.has_chunks:
        components.sheet(pauses_sheet(life).as_data(), key="request_longest")


def _keep_zoom() -> None:
    """Leave a zoom to the panels: all of the request is there already."""


def _nothing(reason: str, now_us: int) -> None:
    """Say why there is nothing to see, and what to do."""
    components.freshness(None, now_us, [], key="request_no_freshness", every_s=None)
    data = {"banners": [nothing_stored(reason).as_data()], "tiles": []}
    components.verdict(data, key="request_nothing")
