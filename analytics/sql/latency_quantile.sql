-- latency_quantile: one quantile of one latency per engine, as an interval in microseconds.
-- Every engine that was scraped in the range has a row.
-- Arguments:
--   of_family    ttft_us, itl_us, tpot_us, e2e_us, queue_us, prefill_us, decode_us, inference_us.
--   at_quantile  0 to 1.
--   since_us     First moment, UTC microseconds; us_ago(INTERVAL '15 minutes') is one.
--   until_us     Moment after the last one.
--   source       'engine_histogram', or 'engine_histogram_1m' for hours and days.
-- Columns:
--   engine        Engine id.
--   lower_us      The quantile is larger than this; 0 means no lower limit.
--   upper_us      It is at most this; NULL when it lies above the highest bucket.
--   observations  In the range; 0 when there were none.
--   note          What to know before quoting it, else NULL.
CREATE OR REPLACE MACRO latency_quantile(
    of_family, at_quantile, since_us, until_us, source := 'engine_histogram'
) AS TABLE
WITH scraped AS (
    SELECT DISTINCT engine FROM engine_metrics WHERE wall_us >= since_us AND wall_us < until_us
), answer AS (
    SELECT engine, lower_bound, upper_bound, observations, note
    FROM histogram_quantile([of_family], [at_quantile], since_us, until_us, source := source)
), joined AS (
    SELECT
        coalesce(scraped.engine, answer.engine) AS engine,
        lower_bound AS lower_us, upper_bound AS upper_us,
        coalesce(observations, 0) AS observations,
        CASE WHEN observations IS NULL THEN 'no requests in this window' ELSE note END AS note
    FROM scraped FULL JOIN answer ON scraped.engine = answer.engine
)
SELECT engine, lower_us, upper_us, observations, note
FROM joined
ORDER BY engine;
