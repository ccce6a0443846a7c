from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stallscope.histogram import bucket_of
from stallscope.storage.compaction import compact, find_jobs
from stallscope.storage.housekeeping import Housekeeping
from stallscope.storage.reader import Lake
from stallscope.storage.retention import Limits
from stallscope.storage.writer import Writer
from tests.storage.lake_rows import MINUTE_US, START_US, HandClock, disk, gaps, histogram

OpenWriter = Callable[..., Writer]


def fill(writer: Writer, clock: HandClock, seconds: int) -> None:
    """Seal one segment a second: ten gaps, two polls of two disks, one scrape."""
    for second in range(seconds):
        wall = clock.wall_us
        writer.append("token_gap", gaps(10 * second, 10, wall_us=wall, itl_us=1_000 + second))
        for device in (1, 2):
            polls = [disk(device, wall + half, queue=second, reads=device) for half in (0, 500_000)]
            writer.append("block_device", polls)
        writer.append("engine_histogram", [histogram(wall, [10_000, 25_000], [second, 1, 2])])
        writer.seal()
        clock.advance(1_000_000)


def answers(lake: Path, *queries: str) -> list[list[tuple[object, ...]]]:
    with Lake(lake).connect() as connection:
        return [connection.execute(query).fetchall() for query in queries]


QUERIES = (
    (
        "SELECT wall_us, engine, level, bucket, lower_bucket, sum(observations) FROM itl_60s "
        "GROUP BY ALL ORDER BY ALL"
    ),
    "SELECT wall_us, level, bucket, sum(observations) FROM itl_10s GROUP BY ALL ORDER BY ALL",
    (
        "SELECT wall_us, device, sum(samples), min(queue_mean_min), max(queue_mean_max), "
        "sum(queue_mean_avg * samples) / sum(samples), sum(reads) FROM block_device_1m "
        "GROUP BY ALL ORDER BY ALL"
    ),
    (
        "SELECT wall_us, family, sum(observations), sum(sum) FROM engine_histogram_1m "
        "GROUP BY ALL ORDER BY ALL"
    ),
    "SELECT request, count(*) FROM token_gap GROUP BY ALL ORDER BY ALL",
)


def test_every_row_and_rollup_is_the_same_before_and_after(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    fill(writer, clock, 125)
    lake = tmp_path / "lake"
    before = answers(lake, *QUERIES)
    entries = len(writer.manifest.entries())
    keeper = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
    )
    keeper.round()
    clock.advance(2 * 60 * MINUTE_US)
    keeper.round()
    keeper.round()
    assert len(writer.manifest.entries()) < entries / 10
    assert answers(lake, *QUERIES) == before


def test_rollups_hold_what_the_rows_say(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    fill(open_writer(), clock, 60)
    itl, _, disks, families, requests = answers(tmp_path / "lake", *QUERIES)
    by_bucket: dict[int, int] = {}
    for second in range(60):
        bucket = bucket_of(1_000 + second)
        by_bucket[bucket] = by_bucket.get(bucket, 0) + 10
    assert {row[3]: row[5] for row in itl if row[2] == "gap"} == by_bucket
    scrape = [row[4:] + row[3:4] for row in itl if row[2] == "scrape"]
    ten, twenty_five = bucket_of(10_000), bucket_of(25_000)
    assert sorted(scrape) == sorted(
        [(-1, sum(range(60)), ten), (ten, 60, twenty_five), (twenty_five, 120, 32_767)]
    )
    assert disks == [
        (START_US, 1, 120, 0.0, 59.0, 29.5, 120),
        (START_US, 2, 120, 0.0, 59.0, 29.5, 240),
    ]
    assert families == [(START_US, "itl_us", sum(range(60)) + 180, 10 * (sum(range(60)) + 180))]
    assert requests == [(number, 1) for number in range(600)]


def test_the_open_window_is_left_alone(open_writer: OpenWriter, clock: HandClock) -> None:
    writer = open_writer()
    fill(writer, clock, 30)
    assert find_jobs(writer.manifest.entries(), clock.wall_us) == []
    assert find_jobs(writer.manifest.entries(), START_US + MINUTE_US + 3_000_000) != []


def test_a_clock_that_steps_back_mixes_no_rows(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    for step in (0, -3_600_000_000, 3_600_000_000):
        clock.wall_us += step
        writer.append(
            "token_gap", gaps(100 * len(writer.manifest.entries()), 5, wall_us=clock.wall_us)
        )
        writer.seal()
        clock.advance(1_000_000)
    clock.advance(10 * MINUTE_US)
    for job in find_jobs(writer.manifest.entries(), clock.wall_us):
        compact(writer.layout, writer.manifest, "collect", job, sync=False)
    found = answers(tmp_path / "lake", "SELECT count(*), count(DISTINCT request) FROM token_gap")
    assert found == [[(15, 15)]]


def test_merged_files_stay_for_open_readers_then_go(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    fill(writer, clock, 62)
    with Lake(tmp_path / "lake").connect(tables=["token_gap"]) as reader:
        keeper = Housekeeping(
            writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
        )
        keeper.round()
        clock.advance(899_000_000)
        keeper.round()
        assert reader.execute("SELECT count(*) FROM token_gap").fetchall() == [(620,)]
    for _ in range(2):  # the first of them merges the last minute, the second lets its parts go
        clock.advance(901_000_000)
        keeper.round()
    on_disk = {
        str(path.relative_to(writer.layout.segments))
        for path in writer.layout.segments.glob("token_gap/*")
    }
    assert on_disk == {e.file for e in writer.manifest.entries() if e.table == "token_gap"}


def test_a_damaged_part_is_quarantined_and_the_rest_merged(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    fill(writer, clock, 62)
    entry = next(e for e in writer.manifest.entries() if e.table == "token_gap")
    path = writer.layout.segments / entry.file
    path.write_bytes(path.read_bytes()[:-20])
    keeper = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
    )
    keeper.round()
    assert keeper.quarantined == 1
    assert entry.file in keeper.finding
    found = answers(tmp_path / "lake", "SELECT count(*) FROM token_gap")
    assert found == [[(610,)]]
    damage = Lake(tmp_path / "lake").status().quarantine
    assert [(d.rows, "were sealed" in d.reason) for d in damage] == [(10, True)]


def test_retention_by_age_and_bytes(open_writer: OpenWriter, clock: HandClock) -> None:
    writer = open_writer()
    fill(writer, clock, 125)
    keeper = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(raw_hours=1), 0, sync=False
    )
    keeper.round()
    clock.wall_us += 10 * 3_600_000_000  # a step alone must not empty the lake
    keeper.round()
    assert any(e.table == "token_gap" for e in writer.manifest.entries())
    clock.advance(2 * 3_600_000_000)
    keeper.round()
    tables = {e.table for e in writer.manifest.entries()}
    assert "token_gap" not in tables
    assert {"itl_60s", "block_device_1m", "engine_histogram_1m"} <= tables


def test_bytes_drop_the_oldest_raw_segments_only(open_writer: OpenWriter, clock: HandClock) -> None:
    writer = open_writer()
    fill(writer, clock, 185)
    keeper = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(raw_bytes=1), 900, sync=False
    )
    keeper.round()
    left = writer.manifest.entries()
    assert all(e.level == 0 for e in left if e.table == "token_gap")
    assert any(e.table == "itl_60s" for e in left)


def test_an_engine_that_counts_nonsense_stops_neither_seal_nor_compaction(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    wild, most = 4_000_000_000, 2**63 - 1
    for half in (0, 500_000):
        row = histogram(clock.wall_us + half, [10_000], [wild, 0])
        writer.append("engine_histogram", [row | {"observations": most, "sum": most}])
        poll = disk(1, clock.wall_us + half, queue=1, reads=3)
        writer.append("block_device", [poll | {"read_bytes": most}])
        writer.seal()
    assert writer.health().state == "working"
    clock.advance(2 * MINUTE_US)
    questions = (
        "SELECT max(observations) FROM itl_60s",
        "SELECT observations, sum, counts FROM engine_histogram_1m",
        "SELECT samples, reads, read_bytes FROM block_device_1m",
    )
    live = answers(tmp_path / "lake", *questions)
    keeper = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
    )
    keeper.round()
    assert answers(tmp_path / "lake", *questions) == live
    assert live == [[(2**32 - 1,)], [(most, None, [2**32 - 1, 0])], [(2, 6, None)]]


def test_histograms_of_thousands_of_buckets_are_rolled_up_within_the_memory_there_is(
    open_writer: OpenWriter, tmp_path: Path, clock: HandClock
) -> None:
    writer = open_writer()
    bounds = list(range(20_000))
    for _ in range(5):
        writer.append("engine_histogram", [histogram(clock.wall_us, bounds, [1] * 20_001)])
        writer.seal()
        clock.advance(1_000_000)
    clock.advance(2 * MINUTE_US)
    keeper = Housekeeping(
        writer.layout, writer.manifest, "collect", clock, Limits(), 900, sync=False
    )
    keeper.round()
    question = "SELECT bounds, counts, observations FROM engine_histogram_1m"
    assert answers(tmp_path / "lake", question) == [[(bounds, [5] * 20_001, 5 * 20_001)]]


def test_a_start_with_a_clock_far_ahead_drops_nothing_once_it_is_set_right(
    open_writer: OpenWriter, clock: HandClock
) -> None:
    writer = open_writer()
    fill(writer, clock, 125)
    clock.wall_us += 365 * 24 * 3_600_000_000
    keeper = Housekeeping(writer.layout, writer.manifest, "collect", clock, Limits(), 0, sync=False)
    keeper.round()
    clock.advance(600_000_000)
    clock.wall_us -= 365 * 24 * 3_600_000_000
    keeper.round()
    clock.advance(600_000_000)
    keeper.round()
    rows = sum(e.rows for e in writer.manifest.entries() if e.table == "token_gap")
    assert rows == 1250
