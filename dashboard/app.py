"""The dashboard's entry: lists the pages, nothing else."""

from __future__ import annotations

import streamlit as st

from dashboard.app_pages import copy_path, data_health, now, requests, sql
from dashboard.components import ASSETS

ICON = ASSETS / "icon.svg"
st.set_page_config(page_title="stallscope", page_icon=str(ICON), layout="wide")
st.logo(str(ASSETS / "logo.svg"), size="medium")
st.navigation(
    [
        st.Page(now.page, title="Now", url_path="now", default=True),
        st.Page(requests.page, title="Requests", url_path="requests"),
        st.Page(copy_path.page, title="Copy path", url_path="copy-path"),
        st.Page(sql.page, title="SQL", url_path="sql"),
        st.Page(data_health.page, title="Data health", url_path="data-health"),
    ],
    position="top",
).run()
