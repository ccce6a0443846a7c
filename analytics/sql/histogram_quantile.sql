-- _histogram_edge: engine_histogram added up per window, one row per pair of bucket edges.
-- Arguments: as histogram_quantile.
-- Columns: wall_us, engine, family, lower_bound, upper_bound, observations.
CREATE OR REPLACE MACRO _histogram_edge(
    families, since_us, until_us, step_us, source, only_engine
) AS TABLE
WITH bucket AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, family,
        unnest(list_concat([CAST(0 AS BIGINT)], bounds)) AS lower_bound,
        unnest(list_concat(bounds, [CAST(NULL AS BIGINT)])) AS upper_bound,
        unnest(counts) AS observations
    FROM query_table(source)
    WHERE wall_us >= since_us AND wall_us < until_us
      AND list_contains(families, family)
      AND (only_engine IS NULL OR engine = only_engine)
)
SELECT
    wall_us, engine, family, lower_bound, upper_bound,
    CAST(sum(observations) AS BIGINT) AS observations
FROM bucket
WHERE observations > 0
GROUP BY ALL;

-- histogram_quantile: what the engine's own buckets say about quantiles, exact about ignorance.
-- The quantile is the observation of rank ceil(q * n). Where it lies inside its bucket nobody knows,
-- so the answer is an interval: the q-quantile of the lower edges and that of the upper edges.
-- This holds also when buckets of several engines, versions or settings are added up.
-- Arguments:
--   families     List of families, for example ['ttft_us', 'e2e_us'].
--   quantiles    List of numbers 0 to 1, for example [0.5, 0.99].
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   source       'engine_histogram' (each scrape) or 'engine_histogram_1m' (each minute).
--   only_engine  An engine id, or NULL for all.
--   merged       true adds all engines up; engine is then NULL.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   engine         Engine id.
--   family         What was observed.
--   quantile       Which quantile.
--   lower_bound    The quantile is larger than this, in the family's unit; 0 means no lower limit.
--   upper_bound    It is at most this; NULL when it lies above the engine's highest bucket.
--   observations   In the window. A window without observations has no row.
--   note           What to know before quoting it, else NULL.
CREATE OR REPLACE MACRO histogram_quantile(
    families, quantiles, since_us, until_us,
    step_us := NULL, source := 'engine_histogram', only_engine := NULL, merged := false
) AS TABLE
WITH edge AS (
    SELECT
        wall_us, CASE WHEN merged THEN NULL ELSE engine END AS engine, family,
        lower_bound, upper_bound, sum(observations) AS observations
    FROM _histogram_edge(families, since_us, until_us, step_us, source, only_engine)
    GROUP BY ALL
), ranked AS (
    SELECT
        wall_us, engine, family, lower_bound, upper_bound,
        sum(observations) OVER up_to_lower AS seen_lower,
        sum(observations) OVER up_to_upper AS seen_upper,
        sum(observations) OVER whole AS total,
        count(*) OVER whole AS buckets
    FROM edge
    WINDOW
        whole AS (PARTITION BY wall_us, engine, family),
        up_to_lower AS (PARTITION BY wall_us, engine, family ORDER BY lower_bound),
        up_to_upper AS (PARTITION BY wall_us, engine, family ORDER BY upper_bound NULLS LAST)
), wanted AS (
    SELECT CAST(unnest(quantiles) AS DOUBLE) AS quantile
), answer AS (
    SELECT
        wall_us, engine, family, quantile, total, buckets,
        min(lower_bound) FILTER (seen_lower >= greatest(1, ceil(quantile * total))) AS lower_bound,
        min(upper_bound) FILTER (seen_upper >= greatest(1, ceil(quantile * total))) AS upper_bound
    FROM ranked CROSS JOIN wanted
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, family, quantile,
    lower_bound, upper_bound, CAST(total AS BIGINT) AS observations,
    CASE
        WHEN upper_bound IS NULL THEN 'above the highest bucket'
        WHEN buckets = 1 AND lower_bound = 0 THEN 'all in the lowest bucket'
        WHEN buckets = 1 THEN 'all in one bucket'
    END AS note
FROM answer
ORDER BY family, quantile, engine, wall_us;
