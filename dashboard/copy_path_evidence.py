"""What the dots say about ITL and the copy path, in words, and what they do not say."""

from __future__ import annotations

from collections.abc import Sequence

from analytics.copy_contention import Relation
from dashboard import formats
from dashboard.answers import Run
from dashboard.copy_path_contention import LONGEST_US, SATURATION, Contention, Facet, Pair
from dashboard.copy_path_words import LEVELS, seen
from dashboard.sheets import Cell, Figure, Head, Link, Paragraph, Row, Sheet, Table
from stallscope.units import US_PER_MS, US_PER_SECOND

TITLE = "ITL spikes against copy-queue contention"
_STRONG, _WEAK = 0.01, 0.05
_SEES_MOST = 0.5
_MAYBE = "May rise together"
_MOST_LINKS = 6
_NO_CLAIM = (
    " Both can rise because the engine has more to do. Copies of others, of peers and of network "
    "cards are in the saturation too, and a quiet link does not clear copies that wait for each "
    "other."
)
_CAVEAT: tuple[Run, ...] = ({"b": "Evidence, not attribution."}, _NO_CLAIM)
_MANY = (
    "Of links that have nothing to do with ITL one in twenty has a chance below 0.05 all the same: "
    "do not pick a link by its fit."
)


def headline(contention: Contention, label: str, now_us: int) -> Sheet:
    """Return the heading and the sentence on top of the dots.

    Args:
        contention: What was compared.
        label: The range of the page in words.
        now_us: The present.
    """
    return Sheet(
        title=TITLE,
        aside=_compared(contention, label, now_us),
        text=[_answer(contention)],
    )


def _compared(contention: Contention, label: str, now_us: int) -> str:
    """Return what was compared, over which time."""
    length_us = contention.until_us - contention.since_us
    span = f"{formats.duration(length_us)} to {formats.clock(contention.until_us, now_us)}"
    last = f", the last of {label}" if length_us == LONGEST_US and label != "zoom" else ""
    return f"{contention.engine.name}, {span}{last}"


def _answer(contention: Contention) -> Paragraph:
    """Return the answer in a sentence."""
    pair = contention.chosen
    if not contention.level:
        return Paragraph(
            ({"b": contention.engine.name}, " has no inter-token latency in this time."), "No data"
        )
    if pair is None or not pair.facets:
        what = pair.name if pair else "any GPU"
        return Paragraph(
            (f"What the link of {what} carried is not known in this time: nothing to compare.",),
            "Not measured",
        )
    relation = pair.facets[0].relation
    if relation.slope is None:
        return Paragraph((f"{pair.name}: {relation.reason}.",), "Cannot tell")
    return Paragraph(*_relation_words(contention, pair, pair.facets[0]))


def _relation_words(
    contention: Contention, pair: Pair, facet: Facet
) -> tuple[tuple[Run, ...], str, str]:
    """Return sentence, word and tone for a relation with a slope."""
    relation, signal = facet.relation, facet.signal
    word, tone = strength(relation)
    what = f"{contention.figure} ITL of {contention.engine.name}"
    if not _rises(relation):
        return (
            (f"The {what} does not rise with the {signal.name} of {pair.name}.",),
            word,
            tone,
        )
    if tone or word == _MAYBE:
        return _rising(what, pair, facet), word, tone
    no_more = f"The {what} does not rise with the {signal.name} of {pair.name} beyond chance. "
    slope = f"Its slope is {_slope(facet)} per {signal.step[1]}. "
    return (no_more, slope, _chance_words(relation)), word, tone


def _rising(what: str, pair: Pair, facet: Facet) -> tuple[Run, ...]:
    """Return how steeply and how late ITL rises, and what chance has to do with it."""
    relation = facet.relation
    return (
        f"With every {facet.signal.step[1]} of {pair.name} the {what} is ",
        {"b": _slope(facet)},
        f" longer{_lag_words(relation)}. {_chance_words(relation)}",
    )


def strength(relation: Relation) -> tuple[str, str]:
    """Return (word, tone) for how far a relation can be trusted."""
    rises = _rises(relation)
    if relation.chance is None:
        return (_MAYBE if rises else "No relation"), ""
    if rises and relation.chance <= _STRONG:
        return "Rise together", "warn"
    if rises and relation.chance <= _WEAK:
        return _MAYBE, ""
    return "No relation beyond chance", ""


def _rises(relation: Relation) -> bool:
    """Return whether ITL rises with the link at all."""
    return (relation.correlation or 0) > 0 and (relation.slope or 0) > 0


def _slope(facet: Facet) -> str:
    """Return the slope for the step in which it is quoted."""
    slope_us = (facet.relation.slope or 0.0) * facet.signal.step[0]
    return f"{formats.number(slope_us / US_PER_MS)}{formats.NBSP}ms"


def _lag_words(relation: Relation) -> str:
    """Return when ITL follows."""
    lag_us = relation.lag_us
    if lag_us is None:
        return ""
    if lag_us == 0:
        return " in the same window"
    when = formats.duration(abs(lag_us))
    return f", {when} later" if lag_us > 0 else f", but {when} before the link is busy"


def _chance_words(relation: Relation) -> str:
    """Return how likely it is by chance."""
    if relation.chance is None:
        return f"Whether that is chance cannot be said: {relation.chance_reason}."
    fits = round(relation.chance * (relation.shifts + 1)) - 1
    if not fits:
        return f"By chance: none of {formats.number(relation.shifts)} shifts in time fits as well."
    return (
        f"By chance: {formats.number(fits)} of {formats.number(relation.shifts)} shifts in time "
        f"{'fits' if fits == 1 else 'fit'} as well."
    )


def figures(contention: Contention) -> Sheet:
    """Return the figures below the dots, what to know about them, and the way to the rows."""
    pair = contention.chosen
    if not _comparable(contention) or pair is None:
        return Sheet(notes=[_CAVEAT])
    return Sheet(
        figures=_figures(contention, pair.facets[0]),
        notes=[*_care(pair), _CAVEAT],
        links=[Link("Open as SQL", "sql", query(contention, pair))],
    )


def compared(contention: Contention) -> Sheet | None:
    """Return all signals and links that were compared; None when nothing was."""
    pair = contention.chosen
    if not _comparable(contention) or pair is None:
        return None
    return Sheet(
        title="Every link against this ITL",
        table=_table(pair, contention.others),
        notes=[(_MANY,)] if contention.others else [],
    )


def _comparable(contention: Contention) -> bool:
    """Return whether there is ITL and something to hold it against."""
    return bool(contention.level and contention.chosen and contention.chosen.facets)


def _figures(contention: Contention, facet: Facet) -> list[Figure]:
    """Return slope, lag, chance, number of windows and level of the signal."""
    relation = facet.relation
    return [
        Figure(
            "Slope",
            "none" if relation.slope is None else _slope(facet),
            f"per {facet.signal.step[1]}",
            "Median over pairs of windows, weighed by how far apart their signals are.",
        ),
        Figure(
            "Lag",
            _lag(relation),
            "best within 5 s either way",
            "Where the rank correlation is largest. Positive: ITL follows.",
        ),
        Figure(
            "By chance",
            _chance(relation),
            relation.chance_reason or f"{formats.number(relation.shifts)} circular shifts",
            "Share of shifts in time at which ITL fits the link as well or better.",
        ),
        Figure(
            "Windows",
            formats.number(relation.points),
            f"of {formats.duration(contention.step_us)}",
            "Windows in which both are known.",
        ),
        Figure(
            "ITL from",
            contention.figure,
            LEVELS.get(contention.level, contention.level),
            f"Median over the range: {formats.latency(contention.median_us or 0)}.",
        ),
    ]


def _lag(relation: Relation) -> str:
    """Return the lag with its sign."""
    if relation.lag_us is None:
        return "none"
    seconds = formats.number(relation.lag_us / US_PER_SECOND)
    sign = "+" if relation.lag_us > 0 else ""
    return f"{sign}{seconds}{formats.NBSP}s"


def _chance(relation: Relation) -> str:
    """Return the chance, or that it is not known."""
    if relation.chance is None:
        return "not known"
    return formats.number(float(f"{relation.chance:.2g}"))


_HEADS = (
    Head("Against"),
    Head("Slope, per 10 points", num=True),
    Head("Lag", num=True),
    Head("Chance", num=True),
)


def _table(pair: Pair, others: Sequence[Pair]) -> Table:
    """Return all signals and links that were compared, the chosen one first."""
    rows = [_row(f"{pair.name}, {facet.signal.name}", facet) for facet in pair.facets]
    known = [other for other in others if other.facets]
    rows += [_row(other.name, other.facets[0]) for other in known[:_MOST_LINKS]]
    rest = known[_MOST_LINKS:]
    if rest:
        rows.append(_rest(rest))
    blind = [other.name for other in others if not other.facets]
    if blind:
        rows.append(_words_only(f"Not measured: {formats.joined(blind)}", ""))
    return Table(_HEADS, tuple(rows))


def _rest(pairs: Sequence[Pair]) -> Row:
    """Return the links with less load in a line."""
    known = [one for pair in pairs if (one := pair.facets[0].relation.chance) is not None]
    least = f"the smallest chance is {formats.number(float(f'{min(known):.2g}'))}" if known else ""
    return _words_only(f"{formats.count(len(pairs), 'link')} with less load", least)


def _words_only(text: str, sub: str) -> Row:
    """Return a row without figures."""
    dash = Cell(formats.DASH)
    return Row((Cell(text, sub), dash, dash, dash), quiet=True)


def _row(name: str, facet: Facet) -> Row:
    """Return one signal of one link."""
    relation = facet.relation
    if relation.slope is None:
        return _words_only(name, relation.reason)
    tone = strength(relation)[1]
    unit = "" if facet.signal == SATURATION else f"per {facet.signal.step[1]}"
    return Row(
        (
            Cell(name),
            Cell(_slope(facet), unit),
            Cell(_lag(relation)),
            Cell(_chance(relation), tone=tone),
        ),
        quiet=not tone,
    )


def _care(pair: Pair) -> list[tuple[Run, ...]]:
    """Return what to know about these figures before quoting them."""
    notes = []
    if pair.coverage is not None and pair.coverage < _SEES_MOST:
        notes.append(
            f"Only {seen(pair.coverage)} is seen of {pair.name}: dots scatter sideways, and the "
            "true slope is steeper than this one."
        )
    relation = pair.facets[0].relation
    chance = relation.chance
    by_chance = chance is not None and chance > _WEAK
    if relation.lag_us is not None and relation.lag_us < 0 and not by_chance:
        notes.append("ITL rises before the link does: then copies are hardly the cause.")
    return [(note,) for note in notes]


def alternative(contention: Contention, pair: Pair, facet: Facet) -> str:
    """Return a chart of dots in one sentence, for those who do not see it."""
    relation = facet.relation
    what = (
        f"{formats.count(relation.points, 'window')}: {contention.figure} ITL of "
        f"{contention.engine.name} above its median over {facet.signal.name} of {pair.name}."
    )
    if relation.slope is None:
        return f"{what} {relation.reason}."
    return f"{what} Slope {_slope(facet)} per {facet.signal.step[1]}, lag {_lag(relation)}."


def query(contention: Contention, pair: Pair) -> str:
    """Return the SQL behind a picture, for the SQL page: the same macro over the same range."""
    return (
        "SELECT time, itl_us / 1000 AS itl_ms, excess_us / 1000 AS excess_ms,\n"
        "       100 * saturation_ratio AS saturation_percent, backlog_us / 1000 AS backlog_ms,\n"
        "       copy_ratio\n"
        "FROM copy_contention(\n"
        f"    {contention.since_us}, {contention.until_us},\n"
        f"    step_us := {contention.step_us}, only_engine := {contention.engine.id}\n"
        ")\n"
        f"WHERE device = {pair.device} AND direction = '{pair.direction}'\n"
        "ORDER BY time"
    )
