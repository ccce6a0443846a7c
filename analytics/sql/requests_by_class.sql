-- requests_by_class: requests that ended in a range, by class of context length and route.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   only_engine  An engine id, or NULL for all.
--   with_gaps    false leaves out gaps, which need raw rows: for hours and days.
-- Columns:
--   context_class   Class of the prompt's length; NULL where the length is not known.
--   route           As in requests; NULL where it is not known.
--   requests        How many.
--   failed          Those that ended in an error: finish is error, or an HTTP status from 400 on.
--   aborted         Those that were aborted.
--   preempted       Those that were preempted at least once; NULL where nothing counts that.
--   prompt_tokens   Sum.
--   output_tokens   Sum.
--   ttft_known      Requests whose time to first token is known; ttft_p50_us and ttft_p99_us are its
--                   quantiles, queue time inside.
--   ttft_without_queue_p50_us, ttft_without_queue_p99_us  The same without the time in the queue.
--   tpot_known      Requests whose tpot is known; tpot_p50_us and tpot_p99_us are its quantiles.
--   e2e_p50_us, e2e_p99_us  Quantiles of end to end.
--   gaps            Pauses between chunks of these requests within the range; itl_p50_us and
--                   itl_p99_us are their quantiles. A request that still runs has no class yet, so
--                   its pauses are in none.
-- Of n values the q-quantile is the one of rank ceil(q n).
CREATE OR REPLACE MACRO requests_by_class(
    since_us, until_us, only_engine := NULL, with_gaps := true
) AS TABLE
WITH ended AS (
    SELECT * FROM requests(since_us, until_us, only_engine := only_engine)
), pause AS (
    SELECT
        ended.context_class, ended.route, count(*) AS gaps,
        quantile_disc(token_gap.itl_us, 0.5) AS itl_p50_us,
        quantile_disc(token_gap.itl_us, 0.99) AS itl_p99_us
    FROM token_gap JOIN ended ON token_gap.request = ended.request
    WHERE token_gap.wall_us >= since_us AND token_gap.wall_us < until_us
      AND token_gap.itl_us IS NOT NULL AND with_gaps
    GROUP BY ALL
), class AS (
    SELECT
        context_class, route, count(*) AS requests,
        count(*) FILTER (finish = 'error' OR status >= 400) AS failed,
        count(*) FILTER (finish = 'abort') AS aborted,
        CASE WHEN count(preemptions) > 0 THEN count(*) FILTER (preemptions > 0) END AS preempted,
        CAST(sum(prompt_tokens) AS BIGINT) AS prompt_tokens,
        CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
        count(ttft_us) AS ttft_known,
        quantile_disc(ttft_us, 0.5) AS ttft_p50_us,
        quantile_disc(ttft_us, 0.99) AS ttft_p99_us,
        quantile_disc(ttft_without_queue_us, 0.5) AS ttft_without_queue_p50_us,
        quantile_disc(ttft_without_queue_us, 0.99) AS ttft_without_queue_p99_us,
        count(tpot_us) AS tpot_known,
        quantile_disc(tpot_us, 0.5) AS tpot_p50_us,
        quantile_disc(tpot_us, 0.99) AS tpot_p99_us,
        quantile_disc(e2e_us, 0.5) AS e2e_p50_us,
        quantile_disc(e2e_us, 0.99) AS e2e_p99_us
    FROM ended
    GROUP BY ALL
)
SELECT
    class.*, CASE WHEN with_gaps THEN coalesce(pause.gaps, 0) END AS gaps,
    pause.itl_p50_us, pause.itl_p99_us
FROM class
LEFT JOIN pause
    ON class.context_class IS NOT DISTINCT FROM pause.context_class
    AND class.route IS NOT DISTINCT FROM pause.route
ORDER BY requests DESC, class.context_class, class.route;
