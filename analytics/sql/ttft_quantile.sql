-- ttft_quantile: quantiles of time to first token, queue time inside, from the plugin in the engine's
-- server: arrival at the API server to the first token, by the wall clock of that server. Exact.
-- Arguments:
--   quantiles    List of numbers 0 to 1, for example [0.5, 0.99].
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time  Begin of the window (UTC).
--   engine         Engine id.
--   quantile       Which quantile.
--   value_us       The figure.
--   observations   First tokens in the window. A window without any has no row.
CREATE OR REPLACE MACRO ttft_quantile(
    quantiles, since_us, until_us, step_us := NULL, only_engine := NULL
) AS TABLE
WITH wanted AS (
    SELECT CAST(unnest(quantiles) AS DOUBLE) AS quantile
), told AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, ttft_us
    FROM first_token
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
), ranked AS (
    SELECT
        wall_us, engine, ttft_us,
        row_number() OVER in_order AS place, count(*) OVER whole AS total
    FROM told
    WINDOW
        whole AS (PARTITION BY wall_us, engine),
        in_order AS (PARTITION BY wall_us, engine ORDER BY ttft_us)
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, quantile,
    ttft_us AS value_us, total AS observations
FROM ranked JOIN wanted ON place = greatest(1, ceil(quantile * total))
ORDER BY quantile, engine, wall_us;
