"""SQL: what can be asked, a place to ask it, and the answer to take away."""

from __future__ import annotations

from functools import partial

import streamlit as st

from analytics.catalog import library_statements
from dashboard import components, formats, state
from dashboard.console import Job, console
from dashboard.exports import as_csv, as_json, as_parquet
from dashboard.result_chart import drawable, result_figure
from dashboard.schema_browser import EXAMPLES, Thing, things
from stallscope.errors import StallscopeError
from stallscope.sql.console import Limits

_POLL_S = 0.5
_EXAMPLE = "sql_example"
_THING = "sql_thing"
_PROBLEM = "sql_problem"
_EXPORTS = (
    ("csv", as_csv, "text/csv"),
    ("parquet", as_parquet, "application/vnd.apache.parquet"),
    ("json", as_json, "application/json"),
)


def page() -> None:
    """Draw the page. A query in the URL fills the editor; it runs when a person says so."""
    try:
        settings = state.settings()
    except StallscopeError as error:
        st.warning(formats.plain(str(error)), icon=":material/error:")
        return
    limits = Limits(memory_mb=settings.sql.memory_mb, timeout_s=settings.sql.timeout_s)
    # The editor comes first on a phone, where columns stand below each other.
    left, right = st.columns([0.72, 0.28], gap="medium")
    with left:
        _editor(limits)
        _answer()
    with right:
        _browser()


def _browser() -> None:
    """Draw what can be asked."""
    st.markdown("##### Tables, views, macros")
    found = {thing.name: thing for thing in things()}
    name = st.selectbox(
        "Table, view or macro",
        list(found),
        key=_THING,
        label_visibility="collapsed",
        format_func=lambda choice: f"{choice} ({found[choice].kind})",
    )
    thing = found[name]
    st.button("Put a query into the editor", on_click=_fill, args=(thing.try_it,))
    if thing.columns:
        st.caption(formats.plain(thing.meaning))
        _columns(thing)
    else:
        st.code(thing.meaning, language=None, wrap_lines=True)


def _columns(thing: Thing) -> None:
    """Draw the columns of a table."""
    names = ("column", "type", "unit", "meaning")
    rows = [dict(zip(names, column, strict=True)) for column in thing.columns]
    st.dataframe(rows, hide_index=True, height=460)


def _fill(sql: str) -> None:
    """Put a statement into the editor."""
    st.session_state[state.QUERY] = sql


def _fill_example() -> None:
    """Put the chosen example into the editor."""
    chosen = st.session_state[_EXAMPLE]
    _fill(next((example.sql for example in EXAMPLES if example.question == chosen), ""))


def _editor(limits: Limits) -> None:
    """Draw examples, the editor and its buttons."""
    st.selectbox(
        "Example",
        [example.question for example in EXAMPLES],
        index=None,
        key=_EXAMPLE,
        placeholder="Start from an example",
        label_visibility="collapsed",
        on_change=_fill_example,
    )
    st.html(
        "<style>.st-key-sql_editor textarea { font-family: 'Source Code', monospace; "
        "font-size: 13px; line-height: 1.5; }</style>"
    )
    with st.container(key="sql_editor"):
        st.text_area(
            "Query",
            key=state.QUERY,
            bind="query-params",
            height=210,
            label_visibility="collapsed",
            placeholder="SELECT ... One statement that reads.",
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        empty = not st.session_state[state.QUERY]
        st.button("Run", on_click=_run, args=(limits,), disabled=empty)
        st.caption(
            f"Reads only. At most {formats.duration(limits.timeout_s * 1e6)}, "
            f"{formats.number(limits.memory_mb)}{formats.NBSP}MB, "
            f"{formats.number(limits.max_rows or 0)} rows. The address bar holds the query: copy "
            "it to share. It fills the editor and never runs by itself."
        )


def _run(limits: Limits) -> None:
    """Start the query in the editor, instead of the one that this session had running."""
    previous = console().job(st.session_state.get(state.JOB))
    if previous is not None and previous.running:
        previous.cancel()
    try:
        job = console().start(
            state.settings().lake.path, st.session_state[state.QUERY], limits, library_statements()
        )
    except StallscopeError as error:
        st.session_state[_PROBLEM] = str(error)
    else:
        st.session_state[state.JOB] = job.id
        st.session_state.pop(_PROBLEM, None)


def _answer() -> None:
    """Draw the query that runs, or its result."""
    problem = st.session_state.get(_PROBLEM)
    if problem:
        st.warning(formats.plain(problem), icon=":material/block:")
    job = console().job(st.session_state.get(state.JOB))
    if job is None:
        if st.session_state.get(state.JOB):
            st.caption("That result is no longer kept. Run the query again.")
        return
    if job.running:
        st.fragment(_waiting, run_every=_POLL_S)(job)
        return
    _ended(job)


def _waiting(job: Job) -> None:
    """Draw how long a query runs, until it ends; then draw the page anew."""
    if not job.running:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Cancel", on_click=job.cancel)
        st.caption("Running. The result stands here when it is done.")


def _ended(job: Job) -> None:
    """Draw a result, or why there is none."""
    if job.table is None:
        st.warning(formats.plain(job.message), icon=":material/block:")
        return
    table = job.table
    cut = " The limit was reached: more rows exist." if job.truncated else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{formats.count(table.num_rows, 'row')}** in {formats.duration(job.seconds * 1e6)}."
            f"{cut}",
            width="stretch",
        )
        for label, write, mime in _EXPORTS:
            st.download_button(
                f"Export {label}",
                partial(write, table),
                f"stallscope.{label}",
                mime,
                on_click="ignore",
                key=f"export_{label}_{job.id}",
            )
    st.dataframe(table, hide_index=True)
    found = drawable(table)
    if found is not None and st.toggle("Draw over time", key="sql_chart"):
        components.panels(result_figure(table, found), key=f"sql_{job.id}", on_zoom=_nothing)


def _nothing() -> None:
    """Zooming a result needs no new data."""
