-- bucket_upper_us: upper edge of a bucket of itl_1s, itl_10s and itl_60s.
-- Arguments:
--   bucket_id  -1 is exactly 0 us, 32767 is without limit.
-- Returns: DOUBLE microseconds, inclusive; NULL for the bucket without limit.
CREATE OR REPLACE MACRO bucket_upper_us(bucket_id) AS (
    CASE
        WHEN bucket_id = 32767 THEN NULL
        WHEN bucket_id < 0 THEN 0.0
        ELSE pow(CAST(1.02 AS DOUBLE), bucket_id)
    END
);

-- bucket_middle_us: the value that answers for a bucket, wrong by at most 0.99 %.
-- Arguments:
--   bucket_id  As in bucket_upper_us.
-- Returns: DOUBLE microseconds; NULL for the bucket without limit.
CREATE OR REPLACE MACRO bucket_middle_us(bucket_id) AS (
    bucket_upper_us(bucket_id) * 2 / CAST(2.02 AS DOUBLE)
);

-- itl_quantile: quantiles of inter-token latency from the histograms that the collector keeps.
-- Levels step and gap are exact measurements, sorted into buckets of 2 %: value_us is wrong by at
-- most 1 %. Level scrape stands for the engine's own coarse buckets: only the interval is known.
-- Arguments:
--   quantiles    List of numbers 0 to 1, for example [0.5, 0.99, 0.999].
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   source       'itl_1s', 'itl_10s' or 'itl_60s': the coarser, the faster.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   engine         Engine id.
--   level          step, gap or scrape.
--   quantile       Which quantile.
--   lower_us       The quantile is larger than this.
--   upper_us       It is at most this; NULL when it lies above the highest bucket.
--   value_us       The figure to quote; NULL at level scrape, where there is none.
--   observations   In the window. A window without observations has no row.
CREATE OR REPLACE MACRO itl_quantile(
    quantiles, since_us, until_us, step_us := NULL, source := 'itl_1s', only_engine := NULL
) AS TABLE
WITH edge AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, level, lower_bucket, bucket, sum(observations) AS observations
    FROM query_table(source)
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
), ranked AS (
    SELECT
        wall_us, engine, level, lower_bucket, bucket,
        sum(observations) OVER up_to_lower AS seen_lower,
        sum(observations) OVER up_to_upper AS seen_upper,
        sum(observations) OVER whole AS total
    FROM edge
    WINDOW
        whole AS (PARTITION BY wall_us, engine, level),
        up_to_lower AS (PARTITION BY wall_us, engine, level ORDER BY lower_bucket),
        up_to_upper AS (PARTITION BY wall_us, engine, level ORDER BY bucket)
), wanted AS (
    SELECT CAST(unnest(quantiles) AS DOUBLE) AS quantile
), answer AS (
    SELECT
        wall_us, engine, level, quantile, total,
        min(lower_bucket) FILTER (seen_lower >= greatest(1, ceil(quantile * total))) AS lower_bucket,
        min(bucket) FILTER (seen_upper >= greatest(1, ceil(quantile * total))) AS bucket
    FROM ranked CROSS JOIN wanted
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, level, quantile,
    CASE WHEN bucket < 0 THEN 0.0 ELSE bucket_upper_us(lower_bucket) END AS lower_us,
    bucket_upper_us(bucket) AS upper_us,
    CASE WHEN level <> 'scrape' THEN bucket_middle_us(bucket) END AS value_us,
    CAST(total AS BIGINT) AS observations
FROM answer
ORDER BY level, quantile, engine, wall_us;
