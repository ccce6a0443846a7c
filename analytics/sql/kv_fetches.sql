-- kv_fetches: requests that wait for KV from another tier, as the engine's gauges count them at each
-- scrape. Only engines whose connector fetches have them (vLLM from 0.32 on).
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time       Begin of the window (UTC).
--   engine              Engine id; one that does not count fetches has no row.
--   scrapes             Scrapes that tell.
--   waiting_mean        Fetches that have not begun; each scrape weighs the same.
--   in_progress_mean    Fetches under way.
--   completed_mean      KV is there, the request is not scheduled yet.
--   in_flight_mean      Waiting and under way together.
--   in_flight_max       The most at one scrape.
CREATE OR REPLACE MACRO kv_fetches(
    since_us, until_us, step_us := NULL, only_engine := NULL
) AS TABLE
WITH told AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, fetch_waiting, fetch_in_progress, fetch_completed,
        fetch_waiting + fetch_in_progress AS in_flight
    FROM engine_metrics
    WHERE wall_us >= since_us AND wall_us < until_us
      AND coalesce(fetch_waiting, fetch_in_progress, fetch_completed) IS NOT NULL
      AND (only_engine IS NULL OR engine = only_engine)
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, count(*) AS scrapes,
    avg(fetch_waiting) AS waiting_mean, avg(fetch_in_progress) AS in_progress_mean,
    avg(fetch_completed) AS completed_mean,
    avg(in_flight) AS in_flight_mean, max(in_flight) AS in_flight_max
FROM told
GROUP BY ALL
ORDER BY engine, wall_us;
