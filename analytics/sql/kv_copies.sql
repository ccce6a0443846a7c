-- _kv_copied: bytes and service time of the engine's KV copies as its steps and its page count them,
-- one row per step or scrape and direction. The two are never added up: basis tells them apart.
-- Arguments: as kv_copies.
-- Columns: wall_us, engine, basis, direction, bytes, jobs, service_us, covered_us.
CREATE OR REPLACE MACRO _kv_copied(since_us, until_us, only_engine) AS TABLE
WITH counted AS (
    SELECT wall_us, engine, 'steps' AS basis, NULL AS covered_us, unnest([
        {'direction': 'rx', 'bytes': load_bytes, 'jobs': load_jobs,
         'service_us': CAST(load_time_us AS BIGINT)},
        {'direction': 'tx', 'bytes': store_bytes, 'jobs': store_jobs,
         'service_us': CAST(store_time_us AS BIGINT)}
    ]) AS way
    FROM engine_step
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
    UNION ALL
    SELECT wall_us, engine, 'counters' AS basis, window_us AS covered_us, unnest([
        {'direction': 'rx', 'bytes': load_bytes_delta, 'jobs': NULL,
         'service_us': load_time_us_delta},
        {'direction': 'tx', 'bytes': store_bytes_delta, 'jobs': NULL,
         'service_us': store_time_us_delta}
    ]) AS way
    FROM engine_metrics
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
)
SELECT
    wall_us, engine, basis, way.direction AS direction, way.bytes AS bytes, way.jobs AS jobs,
    way.service_us AS service_us, covered_us
FROM counted
WHERE way.service_us IS NOT NULL;

-- kv_copies: service time of the engine's KV copies, how fast they went, and how busy they kept the
-- way. Service time is a copy's time on the wire: no metric of the engine holds its wait in a queue.
-- The engine books a copy when it ends, so short windows show lumps, and adds up its ranks.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
--   ranks        Tensor-parallel ranks, where known; NULL where not.
-- Columns:
--   wall_us, time      Begin of the window (UTC).
--   engine             Engine id.
--   direction          rx (load, H2D) or tx (store, D2H).
--   basis              'steps' (each step tells) or 'counters' (of the metrics page); one row of each
--                      where both are there, never to be added up.
--   bytes, jobs        Copied in the window; NULL where it is not counted.
--   service_us         Time on the wire, all ranks together.
--   bytes_per_second   bytes over service time: what one rank achieves; NULL when nothing was copied.
--   busy_ratio         Service time per second: of each rank where ranks are given, else of all
--                      together. Of counters: over the time that their scrapes cover.
--   flag               'ranks add up' when it is above 1 and ranks are not given, else NULL.
CREATE OR REPLACE MACRO kv_copies(
    since_us, until_us, step_us := NULL, only_engine := NULL, ranks := NULL
) AS TABLE
WITH added AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, direction, basis,
        CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(jobs) AS BIGINT) AS jobs,
        CAST(sum(service_us) AS BIGINT) AS service_us,
        sum(service_us) FILTER (bytes IS NOT NULL) AS of_bytes_us,
        sum(covered_us) AS covered_us,
        sum(service_us) FILTER (covered_us IS NOT NULL) AS of_covered_us
    FROM _kv_copied(since_us, until_us, only_engine)
    GROUP BY ALL
), shared AS (
    SELECT
        *,
        CASE
            WHEN basis = 'counters' THEN of_covered_us / nullif(covered_us, 0)
            ELSE service_us / nullif(_overlap(
                CAST(since_us AS BIGINT), CAST(until_us AS BIGINT),
                wall_us, coalesce(step_us, until_us - since_us)
            ), 0)
        END / coalesce(ranks, 1) AS busy_ratio
    FROM added
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, direction, basis, bytes, jobs, service_us,
    1000000.0 * bytes / nullif(of_bytes_us, 0) AS bytes_per_second, busy_ratio,
    CASE WHEN busy_ratio > 1 AND ranks IS NULL THEN 'ranks add up' END AS flag
FROM shared
ORDER BY engine, direction, basis, wall_us;
