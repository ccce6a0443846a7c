"""Results: what was concluded. Rows are immutable; a view shows the last revision of an id."""

from __future__ import annotations

from stallscope.columns import WALL, Cadence, Column, Kind, Retention, Role, Table, fixed, gauge

_REVISION = fixed("revision", Kind.U32, "-", "Rises with each new word on the same id.")


def _result(name: str, meaning: str, *columns: Column, key: tuple[str, ...]) -> Table:
    """Return a table of results: kept, sealed at once."""
    return Table(
        name=name,
        role=Role.RESULT,
        meaning=meaning,
        columns=(WALL, *columns),
        key=key,
        cadence=Cadence.LIVE,
        retention=Retention.KEEP,
    )


EPISODE = _result(
    "episode",
    "A stretch of time in which an engine's gaps were in excess of its baseline.",
    fixed(
        "episode", Kind.TEXT, "-", "Engine id and second of the first alarm; same data, same id."
    ),
    _REVISION,
    fixed("engine", Kind.U16, "-", "Engine."),
    fixed("start_wall_us", Kind.I64, "us", "Begin."),
    gauge("end_wall_us", Kind.I64, "us", "End; NULL while it is open."),
    gauge("excess_us", Kind.I64, "us", "Request time lost against the baseline."),
    gauge("p99_itl_us", Kind.I64, "us", "p99 gap inside."),
    gauge("baseline_p99_itl_us", Kind.I64, "us", "p99 gap before."),
    gauge("confidence_ratio", Kind.F32, "ratio", "How sure the verdict is."),
    gauge("level", Kind.TEXT, "-", "scrape, step or gap."),
    gauge("final", Kind.BOOL, "-", "False while the verdict is provisional."),
    key=("episode", "revision"),
)

EPISODE_CAUSE = _result(
    "episode_cause",
    "What each cause contributed to an episode; innocent and unmeasurable causes have rows too.",
    fixed("episode", Kind.TEXT, "-", "Episode."),
    _REVISION,
    fixed("cause", Kind.TEXT, "-", "One of the closed list in stallscope.schema.CAUSES."),
    gauge("share_ratio", Kind.F32, "ratio", "Share of the excess."),
    gauge("excess_us", Kind.I64, "us", "Its seconds of the excess."),
    gauge("slope", Kind.F32, "-", "Excess per unit of dose; 1 is a full account."),
    gauge("via", Kind.TEXT, "-", "'uplink' when the link is shared."),
    gauge("standing", Kind.TEXT, "-", "convicted, minor, innocent or not_measurable."),
    gauge("evidence", Kind.TEXT, "-", "The exhibit in one sentence."),
    key=("episode", "revision", "cause"),
)

ALERT_EVENT = _result(
    "alert_event",
    "What an alert did.",
    fixed("alert", Kind.TEXT, "-", "Rule and labels; same data, same id."),
    _REVISION,
    fixed("rule", Kind.TEXT, "-", "Rule name."),
    fixed("state", Kind.TEXT, "-", "pending, firing, resolved or no_data."),
    gauge("labels", Kind.TEXT, "-", "Labels as JSON."),
    gauge("value", Kind.F64, "-", "The value judged."),
    gauge("episode", Kind.TEXT, "-", "Episode it coincides with."),
    key=("alert", "revision"),
)

TABLES = (EPISODE, EPISODE_CAUSE, ALERT_EVENT)
