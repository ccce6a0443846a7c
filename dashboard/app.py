"""The dashboard's entry: lists the pages, nothing else."""

from __future__ import annotations

import streamlit as st

from dashboard.app_pages import data_health, now, sql
from dashboard.components import ASSETS

ICON = ASSETS / "icon.svg"
st.set_page_config(page_title="stallscope", page_icon=str(ICON), layout="wide")
st.logo(str(ASSETS / "logo.svg"), size="medium")
st.navigation(
    [
        st.Page(now.page, title="Now", url_path="now", default=True),
        st.Page(sql.page, title="SQL", url_path="sql"),
        st.Page(data_health.page, title="Data health", url_path="data-health"),
    ],
    position="top",
).run()
