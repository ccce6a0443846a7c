"""How our metrics are called in OpenTelemetry: names stand in the schema, their attributes here.

The hardware conventions (hw.*, v1.44) are in development and the attribute for directions is
disputed (open-telemetry/semantic-conventions#2930), so nothing else spells them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stallscope.exposition.families import Feed, column_families

ATTRIBUTES: Mapping[str, str] = {
    "uuid": "hw.id",
    "gpu": "stallscope.gpu.index",
    "source": "stallscope.method",
}
"""Attribute that carries the value of a label; those without a convention have our prefix."""

FIXED: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("direction", "rx"): (("network.io.direction", "receive"),),
    ("direction", "tx"): (("network.io.direction", "transmit"),),
    ("state", "used"): (),  # the name says usage
}
"""Attributes that stand for a fixed label and its value."""

_EVERY = (("hw.type", "gpu"),)
_BORROWED = frozenset({"hw.gpu.pcie.throughput"})  # as OpenLIT spells it; no convention has a rate


@dataclass(frozen=True, slots=True)
class OtelName:
    """One of our series in OpenTelemetry's words.

    Attributes:
        name: Name of the metric.
        feed: The column behind it, and our own name.
        fixed: Attributes with their values.
        carried: Attributes whose values come from a label, as (attribute, label).
    """

    name: str
    feed: Feed
    fixed: tuple[tuple[str, str], ...]
    carried: tuple[tuple[str, str], ...]

    @property
    def is_convention(self) -> bool:
        """Whether the conventions have the name."""
        return self.name not in _BORROWED


def otel_names() -> Iterator[OtelName]:
    """Yield every series that has an OpenTelemetry name, in the order of the schema.

    Raises:
        KeyError: A label has no counterpart here.
    """
    for family in column_families():
        for feed in family.feeds:
            if feed.metric.otel:
                yield _otel_name(feed)


def _otel_name(feed: Feed) -> OtelName:
    labels = [attribute for label in feed.metric.labels for attribute in FIXED[label]]
    carried = tuple((ATTRIBUTES[label.name], label.name) for label in feed.labels)
    return OtelName(feed.metric.otel, feed, (*_EVERY, *labels), carried)


def render_names() -> str:
    """Return the table of OpenTelemetry names as Markdown, for docs/metrics.md."""
    lines = ["| OpenTelemetry | attributes | here |", "|---|---|---|"]
    for otel in otel_names():
        own = ", ".join(f'{label}="{value}"' for label, value in otel.feed.metric.labels)
        here = otel.feed.metric.name + (f"{{{own}}}" if own else "")
        fixed = [f'{attribute}="{value}"' for attribute, value in otel.fixed]
        carried = [f"{attribute} = {label}" for attribute, label in otel.carried]
        name = otel.name + ("" if otel.is_convention else " (no convention)")
        lines.append(f"| {name} | {', '.join((*fixed, *carried))} | {here} |")
    return "\n".join(lines) + "\n"
