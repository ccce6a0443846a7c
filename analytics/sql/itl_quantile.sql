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

-- itl_levels: which levels tell of an engine's inter-token latency in a range, and which to quote.
-- gap (what clients were sent) is better than step (what the engine did), and that better than scrape.
-- A better level counts only where it covers the range: a tap that came or went in the middle tells of
-- a part, and a tail of a part is no tail. The range is cut into slots of half a minute (of a minute
-- from itl_60s); a level tells of a slot when it has an observation in it or in the one before, since
-- a scrape tells of the time before it.
-- Arguments:
--   since_us      First moment, UTC microseconds.
--   until_us      Moment after the last one.
--   source        'itl_1s', 'itl_10s' or 'itl_60s'.
--   only_engine   An engine id, or NULL for all.
--   enough_ratio  Coverage from which a level counts.
-- Columns:
--   engine          Engine id.
--   level           gap, step or scrape; a level without observations has no row.
--   observations    In the range.
--   coverage_ratio  Of what each lesser level observed, the share that lies in slots of which this
--                   level tells too; the smallest of them. 1 where there is no lesser level.
--   is_enough       Whether it counts.
--   is_best         Whether it is the best of the engine's levels that count. Exactly one is.
CREATE OR REPLACE MACRO itl_levels(
    since_us, until_us, source := 'itl_1s', only_engine := NULL, enough_ratio := 0.9
) AS TABLE
WITH counted AS (
    SELECT
        engine, level, CASE level WHEN 'gap' THEN 1 WHEN 'step' THEN 2 ELSE 3 END AS place,
        wall_us // CASE WHEN source = 'itl_60s' THEN 60000000 ELSE 30000000 END AS slot,
        sum(observations) AS observations
    FROM query_table(source)
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
    HAVING sum(observations) > 0
), told AS (
    SELECT engine, place, slot FROM counted
    UNION
    SELECT engine, place, slot + 1 FROM counted
), known AS (
    SELECT engine, level, place, sum(observations) AS observations FROM counted GROUP BY ALL
), shared AS (
    SELECT
        known.engine, known.place, lesser.place AS of_place,
        sum(lesser.observations) FILTER (told.slot IS NOT NULL) AS told_of,
        sum(lesser.observations) AS all_of_it
    FROM known
    JOIN counted AS lesser ON known.engine = lesser.engine AND known.place < lesser.place
    LEFT JOIN told
        ON known.engine = told.engine AND known.place = told.place AND lesser.slot = told.slot
    GROUP BY ALL
), covered AS (
    SELECT engine, place, min(coalesce(told_of, 0) / all_of_it) AS coverage_ratio
    FROM shared
    GROUP BY ALL
), rated AS (
    SELECT
        known.engine, known.level, known.place, known.observations,
        coalesce(covered.coverage_ratio, 1.0) AS coverage_ratio
    FROM known
    LEFT JOIN covered ON known.engine = covered.engine AND known.place = covered.place
)
SELECT
    engine, level, CAST(observations AS BIGINT) AS observations, coverage_ratio,
    coverage_ratio >= enough_ratio AS is_enough,
    place = min(place) FILTER (coverage_ratio >= enough_ratio) OVER (PARTITION BY engine) AS is_best
FROM rated
ORDER BY engine, place;

-- itl_per_output: quantiles of inter-token latency per output of an engine, from the best level that
-- covers the range: see itl_levels. Under speculative decoding an output has several tokens, and this
-- is the latency between outputs; itl_per_token shares it out.
-- Arguments:
--   quantiles    List of numbers 0 to 1, for example [0.5, 0.99, 0.999].
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range. All windows of an
--                engine are of one level.
--   source       'itl_1s', 'itl_10s' or 'itl_60s': the coarser, the faster.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time   Begin of the window (UTC).
--   engine          Engine id.
--   level           gap, step or scrape.
--   quantile        Which quantile.
--   lower_us        The quantile is larger than this.
--   upper_us        It is at most this; NULL when it lies above the highest bucket.
--   value_us        The figure to quote, right to within 1 %; NULL at level scrape.
--   observations    In the window. A window without observations has no row.
--   coverage_ratio  How much of the range the level covers.
CREATE OR REPLACE MACRO itl_per_output(
    quantiles, since_us, until_us, step_us := NULL, source := 'itl_1s', only_engine := NULL
) AS TABLE
SELECT
    found.wall_us, found.time, found.engine, found.level, found.quantile,
    found.lower_us, found.upper_us, found.value_us, found.observations, levels.coverage_ratio
FROM itl_quantile(
    quantiles, since_us, until_us, step_us := step_us, source := source, only_engine := only_engine
) AS found
JOIN itl_levels(since_us, until_us, source := source, only_engine := only_engine) AS levels
    ON found.engine = levels.engine AND found.level = levels.level
WHERE levels.is_best
ORDER BY found.quantile, found.engine, found.wall_us;
