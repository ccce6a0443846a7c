"""How the tables of names are written and looked up.

A column of engine_metrics, or a family of engine_histogram, is fed from one of several spellings.
Spellings are tried in order and the first that a page has is used alone: old and new names of one
quantity stand side by side for some versions (production-stack#617) and are never added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from collector.edges.prompage import Series
from stallscope.units import US_PER_SECOND

_SPELLING = re.compile(r"([^{]+)(?:\{(\w+)=([^}]+)\})?")


class Role(StrEnum):
    """What a series contributes."""

    COUNT = "count"
    """A gauge that adds up: requests running."""
    RATIO = "ratio"
    """A gauge from 0 to 1 that must never be added up: share of the cache in use."""
    COUNTER = "counter"
    BUCKET = "bucket"
    SUM = "sum"
    OBSERVATIONS = "observations"


@dataclass(frozen=True, slots=True)
class Alias:
    """The spellings of one column or family.

    Attributes:
        target: Column of engine_metrics without ``_total``/``_delta``, or family.
        role: What it is; ``BUCKET`` for a histogram.
        choices: Spellings in order of preference. One may consist of several parts joined by
            ``+``, which are different things and are added up. ``name{label=value}`` takes only
            series with that label; a value that ends in ``*`` is a prefix.
        scale: Multiplies the exposed number into the column's unit.
    """

    target: str
    role: Role
    choices: tuple[str, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one series means for one alias.

    Attributes:
        alias: The alias it feeds.
        role: Which part of it; differs from the alias' own role inside histograms.
        choice: Place of its spelling among the choices, 0 is preferred.
        base: Name without ``_total``, ``_bucket``, ``_sum`` or ``_count``: what births are told by.
    """

    alias: Alias
    role: Role
    choice: int
    base: str


@dataclass(frozen=True, slots=True)
class _Spelling:
    meaning: Meaning
    label: str
    value: str

    def fits(self, series: Series) -> bool:
        if not self.label:
            return True
        found = series.label(self.label)
        if self.value.endswith("*"):
            return found.startswith(self.value[:-1])
        return found == self.value


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One make of engine.

    Attributes:
        name: As in table engine.
        prefixes: Series with these prefixes tell that the page is of this kind.
        aliases: The spellings of its columns and families.
        rank_labels: Labels that hold the data-parallel rank, first found wins.
        model_labels: Labels that hold the model.
        replica_labels: Labels that tell workers apart which all count the same events; of those
            that differ in nothing else one is taken, never the sum.
        pipeline: Model names that are steps of one engine: each request passes all of them.
        config: Names of series whose labels are the configuration.
    """

    name: str
    prefixes: tuple[str, ...]
    aliases: tuple[Alias, ...]
    rank_labels: tuple[str, ...] = ()
    model_labels: tuple[str, ...] = ("model_name",)
    replica_labels: frozenset[str] = frozenset()
    pipeline: frozenset[str] = frozenset()
    config: frozenset[str] = frozenset()
    _index: dict[str, list[_Spelling]] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for alias in self.aliases:
            for name, spelling in _spell_out(alias):
                self._index.setdefault(name, []).append(spelling)

    def owns(self, series: Series) -> bool:
        """Return whether a series is the engine's own."""
        return series.name.startswith(self.prefixes)

    def meanings(self, series: Series) -> list[Meaning]:
        """Return everything a series means; empty for names that no column takes."""
        return [one.meaning for one in self._index.get(series.name, ()) if one.fits(series)]


def gauges(role: Role, spellings: Mapping[str, Sequence[str]]) -> tuple[Alias, ...]:
    """Return aliases for gauges."""
    return tuple(Alias(target, role, tuple(names)) for target, names in spellings.items())


def counters(spellings: Mapping[str, Sequence[str]]) -> tuple[Alias, ...]:
    """Return aliases for counters; a target in ``_us`` is exposed in seconds."""
    return tuple(
        Alias(target, Role.COUNTER, tuple(names), _scale(target))
        for target, names in spellings.items()
    )


def histograms(spellings: Mapping[str, Sequence[str]]) -> tuple[Alias, ...]:
    """Return aliases for histograms; a family in ``_us`` is exposed in seconds."""
    return tuple(
        Alias(target, Role.BUCKET, tuple(names), _scale(target))
        for target, names in spellings.items()
    )


def _scale(target: str) -> float:
    return US_PER_SECOND if target.endswith("_us") else 1.0


def _spell_out(alias: Alias) -> Iterator[tuple[str, _Spelling]]:
    """Yield every name that feeds an alias."""
    for choice, parts in enumerate(alias.choices):
        for part in parts.split("+"):
            match = _SPELLING.fullmatch(part.strip())
            if match is None:
                msg = f"{alias.target}: not a spelling: {part}"
                raise ValueError(msg)
            label, value = match.group(2) or "", match.group(3) or ""
            for name, role, base in _exposed_names(match.group(1), alias.role):
                yield name, _Spelling(Meaning(alias, role, choice, base), label, value)


def _exposed_names(name: str, role: Role) -> Iterator[tuple[str, Role, str]]:
    """Yield the names that one declared name gets on a page, each with its role and base."""
    if role is Role.BUCKET:
        yield f"{name}_bucket", Role.BUCKET, name
        yield f"{name}_sum", Role.SUM, name
        yield f"{name}_count", Role.OBSERVATIONS, name
    elif role is Role.COUNTER and name.endswith("_total"):
        base = name.removesuffix("_total")
        yield name, role, base
        yield base, role, base  # Ray exports a counter by the name it was declared with
    else:
        yield name, role, name
