-- itl_per_token: quantiles of inter-token latency per token: the pause before a chunk shared evenly by
-- its tokens, each of which counts. The same as per output where every chunk has one token; apart
-- from it under speculative decoding, and where the server fell behind and sent several at once.
-- Exact, from raw rows: for ranges of minutes.
-- Arguments:
--   quantiles    List of numbers 0 to 1, for example [0.5, 0.99].
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time      Begin of the window (UTC).
--   engine             Engine id.
--   quantile           Which quantile.
--   value_us           The figure. A window without a known chunk has no row.
--   tokens             Tokens that it is taken from.
--   outputs            Chunks they came in.
--   tokens_per_output  Their mean: 1 without speculative decoding.
CREATE OR REPLACE MACRO itl_per_token(
    quantiles, since_us, until_us, step_us := NULL, only_engine := NULL
) AS TABLE
WITH shared AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, itl_us / tokens_in_output AS value_us,
        sum(tokens_in_output) AS tokens, count(*) AS outputs
    FROM token_gap
    WHERE wall_us >= since_us AND wall_us < until_us
      AND itl_us IS NOT NULL AND tokens_in_output > 0
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
), ranked AS (
    SELECT
        wall_us, engine, value_us,
        sum(tokens) OVER up_to AS seen, sum(tokens) OVER whole AS total,
        sum(outputs) OVER whole AS outputs
    FROM shared
    WINDOW
        whole AS (PARTITION BY wall_us, engine),
        up_to AS (PARTITION BY wall_us, engine ORDER BY value_us)
), wanted AS (
    SELECT CAST(unnest(quantiles) AS DOUBLE) AS quantile
), answer AS (
    SELECT
        wall_us, engine, quantile, total, outputs,
        min(value_us) FILTER (seen >= greatest(1, ceil(quantile * total))) AS value_us
    FROM ranked CROSS JOIN wanted
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, quantile, value_us,
    CAST(total AS BIGINT) AS tokens, CAST(outputs AS BIGINT) AS outputs,
    total / outputs AS tokens_per_output
FROM answer
ORDER BY quantile, engine, wall_us;
