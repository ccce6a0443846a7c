"""Colours of the charts that Streamlit draws; the same as in theme.js, held equal by a test."""

from __future__ import annotations

from collections.abc import Mapping

COLOURS: Mapping[str, Mapping[str, str]] = {
    "dark": {
        "bg": "#0E1217",
        "line2": "#3A4550",
        "ink": "#E8ECF1",
        "ink2": "#AEB8C4",
        "ink3": "#8C98A6",
        "warn": "#F0B429",
        "h2d_copy": "#5460E6",
        "d2h_copy": "#D0E2FC",
    },
    "light": {
        "bg": "#FFFFFF",
        "line2": "#B9C2CC",
        "ink": "#161B21",
        "ink2": "#47525E",
        "ink3": "#626E7B",
        "warn": "#8A5A00",
        "h2d_copy": "#4F46D0",
        "d2h_copy": "#8EA5E2",
    },
}


def colours(theme: str | None) -> Mapping[str, str]:
    """Return the colours of a theme; of an unknown one those of the dark theme."""
    return COLOURS.get(theme or "dark", COLOURS["dark"])
