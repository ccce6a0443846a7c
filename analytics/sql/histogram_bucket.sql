-- engine_histogram_bucket: engine_histogram with one row per bucket that saw something.
-- Columns:
--   wall_us, time  When the scrape was taken (UTC).
--   engine         Engine id.
--   window_us      Time since the scrape before; NULL on an engine's first row.
--   family         What was observed, unit in the name: ttft_us, itl_us, e2e_us, queue_us ...
--   lower_bound    Observations are larger than this, in the family's unit; 0 for the lowest bucket.
--   upper_bound    They are at most this; NULL for the bucket without a limit (+Inf).
--   observations   How many were observed in the window.
CREATE OR REPLACE VIEW engine_histogram_bucket AS
WITH bucket AS (
    SELECT
        wall_us, time, engine, window_us, family,
        unnest(list_concat([CAST(0 AS BIGINT)], bounds)) AS lower_bound,
        unnest(list_concat(bounds, [CAST(NULL AS BIGINT)])) AS upper_bound,
        unnest(counts) AS observations
    FROM engine_histogram
)
SELECT wall_us, time, engine, window_us, family, lower_bound, upper_bound, observations
FROM bucket
WHERE observations > 0;
