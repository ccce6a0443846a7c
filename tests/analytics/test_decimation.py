from __future__ import annotations

import math
from collections import defaultdict

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from analytics.decimation import extremes

ROW = st.tuples(
    st.integers(0, 300_000_000), st.integers(1, 2), st.one_of(st.none(), st.floats(0, 1e6))
)


@given(rows=st.lists(ROW, min_size=1, max_size=40))
def test_peaks_and_troughs_of_every_window_survive(
    rows: list[tuple[int, int, float | None]],
) -> None:
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (wall_us BIGINT, device INT, x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        found = connection.execute(
            extremes("t", "device", ["x"], step_us=60_000_000, since_us=0, until_us=240_000_000)
        ).fetchall()
    expected: dict[tuple[int, int], list[float]] = defaultdict(list)
    for wall, device, value in rows:
        if wall < 240_000_000:
            window = expected[wall // 60_000_000 * 60_000_000, device]
            window += [] if value is None else [value]
    assert {(wall, device): (low, high) for wall, device, low, high in found} == {
        key: (min(values), max(values)) if values else (None, None)
        for key, values in expected.items()
    }


def test_the_same_peak_comes_out_of_the_rollup() -> None:
    values = [(i * 1_000_000, 1, 1000.0 if i == 77 else math.sin(i)) for i in range(180)]
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (wall_us BIGINT, device INT, x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", values)
        connection.execute(
            "CREATE TABLE t_1m AS SELECT wall_us - wall_us % 60000000 AS wall_us, device, "
            "min(x) AS x_min, avg(x) AS x_avg, max(x) AS x_max FROM t GROUP BY 1, 2"
        )
        answers = [
            sorted(
                connection.execute(
                    extremes(
                        table,
                        "device",
                        ["x"],
                        step_us=60_000_000,
                        since_us=0,
                        until_us=180_000_000,
                        only="device = 1",
                    )
                ).fetchall()
            )
            for table in ("t", "t_1m")
        ]
    assert answers[0] == answers[1]
    assert answers[0][1][3] == 1000.0
