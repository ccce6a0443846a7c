-- _exact_itl: p99 and mean of inter-token latency per window at the levels gap and step.
-- Arguments: as copy_contention.
-- Columns: wall_us, engine, level, p99_us, mean_us, observations.
CREATE OR REPLACE MACRO _exact_itl(since_us, until_us, step_us, only_engine) AS TABLE
WITH mean AS (
    SELECT
        wall_us - wall_us % step_us AS wall_us, engine, level,
        sum(bucket_middle_us(bucket) * observations) / sum(observations) AS mean_us
    FROM itl_1s
    WHERE wall_us >= since_us AND wall_us < until_us AND level <> 'scrape'
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
)
SELECT wall_us, engine, level, value_us AS p99_us, mean_us, observations
FROM itl_quantile([0.99], since_us, until_us, step_us := step_us, only_engine := only_engine)
JOIN mean USING (wall_us, engine, level);

-- _scraped_itl: mean of inter-token latency per window from the engine's own sum and count. A scrape
-- covers the time since the one before, so it counts in every window by its share in it.
-- Arguments: as copy_contention.
-- Columns: wall_us, engine, mean_us, observations.
CREATE OR REPLACE MACRO _scraped_itl(since_us, until_us, step_us, only_engine) AS TABLE
WITH scrape AS (
    SELECT
        engine, wall_us - window_us AS begin_us, wall_us AS end_us, window_us, "sum", observations,
        unnest(_windows(wall_us - window_us, wall_us, step_us)) AS wall_us
    FROM engine_histogram
    WHERE wall_us > since_us AND wall_us - window_us < until_us AND family = 'itl_us'
      AND window_us BETWEEN 1 AND 10 * step_us AND observations > 0 AND "sum" IS NOT NULL
      AND (only_engine IS NULL OR engine = only_engine)
), shared AS (
    SELECT
        wall_us, engine, "sum", observations,
        _overlap(begin_us, end_us, wall_us, step_us) / window_us AS share
    FROM scrape
    WHERE wall_us >= since_us AND wall_us < until_us
)
SELECT
    wall_us, engine, sum("sum" * share) / sum(observations * share) AS mean_us,
    CAST(round(sum(observations * share)) AS BIGINT) AS observations
FROM shared
GROUP BY ALL;

-- itl_excess: inter-token latency per engine and window, and how far it lies above its median.
-- From the best level there is in the range: gap, else step, else scrape.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   engine         Engine id.
--   level          gap, step or scrape.
--   figure         p99 at the levels gap and step; mean at scrape, where a p99 is known only as a
--                  bucket, but sum and count are exact.
--   itl_us         The figure in this window.
--   excess_us      The same minus its median over the windows of the range; may be negative.
--   observations   In the window. A window without observations has no row.
CREATE OR REPLACE MACRO itl_excess(
    since_us, until_us, step_us := 1000000, only_engine := NULL
) AS TABLE
WITH known AS (
    SELECT
        wall_us, engine, level, 'p99' AS figure, p99_us AS itl_us, observations,
        CASE level WHEN 'gap' THEN 1 ELSE 2 END AS place
    FROM _exact_itl(since_us, until_us, step_us, only_engine)
    UNION ALL
    SELECT wall_us, engine, 'scrape', 'mean', mean_us, observations, 3
    FROM _scraped_itl(since_us, until_us, step_us, only_engine)
), best AS (
    SELECT * FROM known QUALIFY place = min(place) OVER (PARTITION BY engine)
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, level, figure, itl_us,
    itl_us - median(itl_us) OVER (PARTITION BY engine) AS excess_us, observations
FROM best
ORDER BY engine, wall_us;
