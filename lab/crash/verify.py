"""Whether a lake holds what was acknowledged: each row once, unaltered, rollups to the row."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.crash.acks import Ack
from lab.crash.numbered import DEVICES, GAP_SQL, IS_FIRST_SQL, NUMBER_SQL
from lab.crash.reading import Answers, LakeReader
from lab.report import Check


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reader found.

    Attributes:
        acknowledged: Rows that must be there.
        present: Rows that are there, unacknowledged ones among them.
        lost: Acknowledged rows that are not.
        doubled: Copies beyond the first.
        altered: Rows whose content is not what was written.
        rollup_off: Rollup cells that differ from the rows.
    """

    acknowledged: int
    present: int
    lost: int
    doubled: int
    altered: int
    rollup_off: int

    @property
    def holds(self) -> bool:
        """Return whether the promise was kept."""
        return self.present > 0 and not (
            self.lost or self.doubled or self.altered or self.rollup_off
        )

    def __str__(self) -> str:
        return (
            f"{self.acknowledged:,} acknowledged, {self.present:,} present: {self.lost} lost, "
            f"{self.doubled} doubled, {self.altered} altered, {self.rollup_off} rollup cells off"
        )


def verify_rows(reader: LakeReader, lake: Path, acks: Sequence[Ack]) -> Verdict:
    """Compare the rows of `lab.crash.numbered` in a lake with what was acknowledged."""
    answers = reader.ask(lake, _queries(acks))
    tokens, gauges, facts = (_Count(*_one(answers, name)) for name in ("tokens", "gauges", "facts"))
    counts = (tokens, gauges, facts)
    return Verdict(
        acknowledged=sum(a.tokens + a.polls * DEVICES + bool(a.tokens) for a in acks),
        present=sum(count.present for count in counts),
        lost=sum(count.lost for count in counts),
        doubled=sum(count.doubled for count in counts),
        altered=sum(count.altered for count in counts),
        rollup_off=sum(_one(answers, name)[0] for name in answers if name.startswith("rollup")),
    )


def check_rows(readers: Iterable[LakeReader], lake: Path, acks: Sequence[Ack]) -> list[Check]:
    """Return a check per reader."""
    return [
        Check(f"rows as {reader.name} sees them", verdict.holds, str(verdict))
        for reader in readers
        for verdict in [verify_rows(reader, lake, acks)]
    ]


def check_reservations(acks: Sequence[Ack], block: int) -> Check:
    """Return whether no id was given out to two runs."""
    firsts = sorted(ack.first_id for ack in acks)
    apart = all(b - a >= block for a, b in itertools.pairwise(firsts))
    return Check("reserved ids", apart, f"{len(firsts)} blocks of {block}, none overlaps")


@dataclass(frozen=True, slots=True)
class _Count:
    present: int
    lost: int
    doubled: int
    altered: int


def _one(answers: Answers, name: str) -> tuple[int, ...]:
    """Return the single row of an answer as integers; a sum over nothing is 0."""
    (row,) = answers[name]
    return tuple(int(str(value)) if value is not None else 0 for value in row)


def _queries(acks: Sequence[Ack]) -> dict[str, str]:
    """Return the queries by name."""
    values = ", ".join(f"({a.run}, {a.tokens}, {a.polls})" for a in acks)
    known = f"known(run, tokens, polls) AS (VALUES {values})"
    return {
        "tokens": f"""
WITH {known}, seen AS (
    SELECT engine::BIGINT AS engine, {NUMBER_SQL} AS n, itl_us, tokens_in_output FROM token_gap
), found AS (
    SELECT engine, n, count(*) AS copies, count(*) FILTER (
        tokens_in_output <> 1
        OR itl_us IS DISTINCT FROM (CASE WHEN {IS_FIRST_SQL} THEN NULL ELSE {GAP_SQL} END)
    ) AS altered FROM seen GROUP BY ALL
) SELECT sum(copies)::BIGINT,
         (SELECT sum(tokens) FROM known)::BIGINT - count(*) FILTER (n < tokens),
         sum(copies - 1)::BIGINT, sum(altered)::BIGINT
FROM found LEFT JOIN known ON engine = run""",
        "gauges": f"""
WITH {known}, found AS (
    SELECT device::BIGINT AS device, reads::BIGINT AS poll, count(*) AS copies,
           count(*) FILTER (in_flight <> reads % 8 OR read_await_mean_us <> reads % 500) AS altered
    FROM block_device GROUP BY ALL
) SELECT sum(copies)::BIGINT,
         (SELECT sum(polls) * {DEVICES} FROM known)::BIGINT - count(*) FILTER (poll < polls),
         sum(copies - 1)::BIGINT, sum(altered)::BIGINT
FROM found LEFT JOIN known ON device // {DEVICES} = run""",
        "facts": f"""
WITH {known}, found AS (
    SELECT engine::BIGINT AS engine, count(*) AS copies,
           count(*) FILTER (endpoint <> 'run-' || engine) AS altered
    FROM engine GROUP BY ALL
) SELECT sum(copies)::BIGINT,
         (SELECT count(*) FROM known WHERE tokens > 0) - count(*) FILTER (tokens > 0),
         sum(copies - 1)::BIGINT, sum(altered)::BIGINT
FROM found LEFT JOIN known ON engine = run""",
        **_rollup_queries(),
    }


def _rollup_queries() -> dict[str, str]:
    """Return, per rollup, the query that counts cells which differ from the rows."""
    bucket = "ceil(ln(itl_us) / ln(1.02) - 1e-9)::SMALLINT"
    queries = {
        f"rollup {table}": f"""
WITH rows AS (
    SELECT wall_us - wall_us % {span_us} AS wall_us, engine, {bucket} AS bucket, count(*) AS n
    FROM token_gap WHERE itl_us IS NOT NULL GROUP BY ALL
), cells AS (
    SELECT wall_us, engine, bucket, sum(observations)::BIGINT AS n
    FROM {table} WHERE level = 'gap' GROUP BY ALL
) SELECT count(*) FROM rows FULL JOIN cells USING (wall_us, engine, bucket)
WHERE rows.n IS DISTINCT FROM cells.n"""
        for table, span_us in (("itl_1s", 10**6), ("itl_10s", 10**7), ("itl_60s", 6 * 10**7))
    }
    queries["rollup block_device_1m"] = """
WITH rows AS (
    SELECT wall_us - wall_us % 60000000 AS wall_us, device, count(*) AS n, sum(reads)::BIGINT AS s
    FROM block_device GROUP BY ALL
), cells AS (
    SELECT wall_us, device, sum(samples)::BIGINT AS n, sum(reads)::BIGINT AS s
    FROM block_device_1m GROUP BY ALL
) SELECT count(*) FROM rows FULL JOIN cells USING (wall_us, device)
WHERE rows.n IS DISTINCT FROM cells.n OR rows.s IS DISTINCT FROM cells.s"""
    return queries
