-- link_windows: mean saturation of each GPU's link per window and direction. A reading covers the
-- time since the one before, so it counts in every window by its share in it.
-- Arguments:
--   since_us  First moment, UTC microseconds.
--   until_us  Moment after the last one.
--   step_us   Length of a window.
-- Columns:
--   wall_us, time     Begin of the window (UTC).
--   device            GPU, see table device.
--   direction         rx (to the GPU, H2D, load) or tx (from the GPU, D2H, store).
--   saturation_ratio  Mean; NULL unless readings cover half of the window. A reading over more than
--                     ten windows says nothing about any of them and is left out.
--   coverage_ratio    Share of those readings' time that their method saw at all.
CREATE OR REPLACE MACRO link_windows(since_us, until_us, step_us := 1000000) AS TABLE
WITH reading AS (
    SELECT
        device, wall_us - window_us AS begin_us, wall_us AS end_us,
        rx_saturation_ratio, tx_saturation_ratio, coverage_ratio,
        unnest(_windows(wall_us - window_us, wall_us, step_us)) AS wall_us
    FROM gpu_link
    WHERE wall_us > since_us AND wall_us - window_us < until_us
      AND window_us BETWEEN 1 AND 10 * step_us
), part AS (
    SELECT
        wall_us, device, coverage_ratio,
        _overlap(begin_us, end_us, wall_us, step_us) AS overlap_us,
        unnest([
            {'direction': 'rx', 'saturation': rx_saturation_ratio},
            {'direction': 'tx', 'saturation': tx_saturation_ratio}
        ]) AS way
    FROM reading
    WHERE wall_us >= since_us AND wall_us < until_us
), added AS (
    SELECT
        wall_us, device, way.direction AS direction,
        sum(way.saturation * overlap_us) AS weighed,
        sum(overlap_us) FILTER (way.saturation IS NOT NULL) AS measured_us,
        sum(coverage_ratio * overlap_us) FILTER (way.saturation IS NOT NULL) AS seen_us
    FROM part
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, device, direction,
    CASE WHEN measured_us * 2 >= step_us THEN weighed / measured_us END AS saturation_ratio,
    seen_us / measured_us AS coverage_ratio
FROM added
ORDER BY device, direction, wall_us;

-- copy_backlog: how long a copy had to wait behind those queued before it, by Lindley's recursion: one
-- server per GPU and direction, first come, first served, each copy taking its time on the wire.
-- With U(n) = service of all copies before n, minus arrival of n, the wait of n is U(n) minus the
-- smallest U so far. A copy without a time on the wire takes its bytes over the link's ceiling.
-- Arguments: as link_windows.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   device         GPU, see table device; NULL when the copies name none.
--   direction      rx (to the GPU, H2D, load) or tx (from the GPU, D2H, store).
--   backlog_us     Longest time in the window until everything queued would be copied. A window in
--                  which nothing was queued has no row.
CREATE OR REPLACE MACRO copy_backlog(since_us, until_us, step_us := 1000000) AS TABLE
WITH ceiling AS (
    SELECT device, direction, arg_max(ceiling, wall_us) AS bytes_per_second
    FROM _link_direction(since_us, until_us, NULL)
    GROUP BY ALL
), copy AS (
    SELECT
        c.device, c.direction, c.wall_us - (c.mono_us - c.enqueue_mono_us) AS arrival_us,
        CAST(coalesce(
            CAST(c.service_us AS DOUBLE),
            1000000.0 * c.bytes / CAST(ceiling.bytes_per_second AS DOUBLE)
        ) AS BIGINT) AS service_us
    FROM copy_event AS c
    LEFT JOIN ceiling ON c.device = ceiling.device AND c.direction = ceiling.direction
    WHERE c.wall_us >= since_us AND c.wall_us < until_us
), queued AS (
    SELECT
        device, direction, arrival_us, service_us,
        coalesce(sum(service_us) OVER before, 0) - arrival_us AS u
    FROM copy
    WHERE service_us IS NOT NULL AND arrival_us IS NOT NULL
    WINDOW before AS (
        PARTITION BY device, direction ORDER BY arrival_us, service_us
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), ended AS (
    SELECT
        device, direction, arrival_us,
        CAST(arrival_us + service_us + u - min(u) OVER (
            PARTITION BY device, direction ORDER BY arrival_us, service_us
            ROWS UNBOUNDED PRECEDING
        ) AS BIGINT) AS end_us
    FROM queued
), part AS (
    SELECT
        device, direction, arrival_us, end_us,
        unnest(_windows(arrival_us, end_us, step_us)) AS wall_us
    FROM ended
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, device, direction,
    max(end_us - greatest(arrival_us, wall_us)) AS backlog_us
FROM part
WHERE wall_us >= since_us AND wall_us < until_us
GROUP BY ALL
ORDER BY device, direction, wall_us;

-- kv_copy_windows: seconds of KV copies per second, as the engine counts them. Its counters add up
-- the ranks and hold no time in a queue, so 1 means one rank that copies all the time.
-- Arguments: as itl_excess.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   engine         Engine id.
--   direction      rx (loads, H2D) or tx (stores, D2H).
--   copy_ratio     Seconds of copies per second. No row where the engine does not count them.
CREATE OR REPLACE MACRO kv_copy_windows(
    since_us, until_us, step_us := 1000000, only_engine := NULL
) AS TABLE
WITH scrape AS (
    SELECT
        engine, wall_us - window_us AS begin_us, wall_us AS end_us, window_us,
        load_time_us_delta, store_time_us_delta,
        unnest(_windows(wall_us - window_us, wall_us, step_us)) AS wall_us
    FROM engine_metrics
    WHERE wall_us > since_us AND wall_us - window_us < until_us
      AND window_us BETWEEN 1 AND 10 * step_us
      AND (only_engine IS NULL OR engine = only_engine)
), part AS (
    SELECT
        wall_us, engine, _overlap(begin_us, end_us, wall_us, step_us) AS overlap_us, window_us,
        unnest([
            {'direction': 'rx', 'copied_us': load_time_us_delta},
            {'direction': 'tx', 'copied_us': store_time_us_delta}
        ]) AS way
    FROM scrape
    WHERE wall_us >= since_us AND wall_us < until_us
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, way.direction AS direction,
    sum(way.copied_us * overlap_us / window_us) / sum(overlap_us) AS copy_ratio
FROM part
WHERE way.copied_us IS NOT NULL
GROUP BY ALL
ORDER BY engine, direction, wall_us;

-- copy_contention: inter-token latency above its median beside what the copy path did in the same
-- window: every engine beside every GPU and direction, since the lake does not say which engine runs
-- where. Readings are joined by how their intervals overlap, never by equal times.
-- It is evidence, not attribution: copies of others, peers and NICs are in the saturation as well.
-- Arguments: as itl_excess.
-- Columns:
--   wall_us, time     Begin of the window (UTC).
--   engine            Engine id.
--   level, figure     What inter-token latency is known from, and as what: see itl_excess.
--   itl_us            The figure in this window.
--   excess_us         The same minus its median over the range.
--   observations      Gaps in the window.
--   device            GPU; direction is rx (H2D, load) or tx (D2H, store).
--   saturation_ratio  Mean saturation of that GPU's link, see link_windows.
--   coverage_ratio    Share of the time that the method saw.
--   backlog_us        Longest queue of copies, see copy_backlog; 0 in windows without copies, NULL
--                     where no copies are known at all.
--   copy_ratio        Seconds of the engine's own KV copies per second, see kv_copy_windows.
CREATE OR REPLACE MACRO copy_contention(
    since_us, until_us, step_us := 1000000, only_engine := NULL
) AS TABLE
WITH backlog AS (
    SELECT * FROM copy_backlog(since_us, until_us, step_us := step_us)
), known_queue AS (
    SELECT DISTINCT device, direction, 0 AS empty_us FROM backlog
)
SELECT
    itl.wall_us, itl.time, itl.engine, itl.level, itl.figure, itl.itl_us, itl.excess_us,
    itl.observations, link.device, link.direction, link.saturation_ratio, link.coverage_ratio,
    coalesce(backlog.backlog_us, known_queue.empty_us) AS backlog_us, own.copy_ratio
FROM itl_excess(since_us, until_us, step_us := step_us, only_engine := only_engine) AS itl
JOIN link_windows(since_us, until_us, step_us := step_us) AS link USING (wall_us)
LEFT JOIN known_queue
    ON link.device = known_queue.device AND link.direction = known_queue.direction
LEFT JOIN backlog
    ON link.wall_us = backlog.wall_us AND link.device = backlog.device
    AND link.direction = backlog.direction
LEFT JOIN kv_copy_windows(since_us, until_us, step_us := step_us, only_engine := only_engine) AS own
    ON itl.wall_us = own.wall_us AND itl.engine = own.engine AND link.direction = own.direction
ORDER BY itl.engine, link.device, link.direction, itl.wall_us;
