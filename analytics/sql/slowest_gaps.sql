-- _gaps: pauses before outputs, one by one: those of clients' chunks, and of engines that have none in
-- the range those of steps.
-- Arguments: as slowest_gaps.
-- Columns: wall_us, engine, level, request, chunk_index, itl_us, tokens_in_output, outputs.
CREATE OR REPLACE MACRO _gaps(since_us, until_us, floor_us, only_engine) AS TABLE
SELECT
    wall_us, engine, 'gap' AS level, request, chunk_index, itl_us, tokens_in_output, 1 AS outputs
FROM token_gap
WHERE wall_us >= since_us AND wall_us < until_us AND itl_us > floor_us
  AND (only_engine IS NULL OR engine = only_engine)
UNION ALL
SELECT wall_us, engine, 'step', NULL, NULL, itl_us, NULL, outputs
FROM engine_step
WHERE wall_us >= since_us AND wall_us < until_us AND itl_us > floor_us
  AND (only_engine IS NULL OR engine = only_engine)
  AND engine NOT IN (
      SELECT engine FROM itl_1s
      WHERE wall_us >= since_us AND wall_us < until_us AND level = 'gap'
  );

-- slowest_gaps: the longest pauses of a range one by one, and what the engine did in each: from chunks
-- where there is a middleware, else from steps, which know no request.
-- From raw rows: for ranges of minutes.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   at_most      How many.
--   floor_us     Only pauses longer than this: known from itl_quantile, it makes the search cheap.
--   together_us  Pauses of an engine that end within the same window of this length become one row,
--                that of the longest: all requests wait for one slow step. 0 lists each of them.
--   only_engine  An engine id, or NULL for all.
--   only_class   A context class, or NULL for all. A class is known when a request has ended.
--   only_route   A route, or NULL for all.
-- Columns:
--   wall_us, time     When the pause ended (UTC).
--   engine            Engine id.
--   level             gap or step.
--   itl_us            The pause.
--   request           Request id and chunk_index at level gap.
--   tokens_in_output  Tokens that came after it; NULL when unknown.
--   outputs           Requests that had this pause: of a step all that it gave an output, of a row
--                     for several pauses those that waited at least half as long.
--   route, context_class  Of the request; NULL while it runs.
--   steps             Steps of the engine that ended in the pause. NULL in this column and the next
--                     ones: no step is known in that time.
--   engine_itl_us     The longest gap of an output in them: near itl_us, the engine was slow; far
--                     below, what stands between engine and client.
--   prefill_tokens    Prompt tokens computed in them; preempted are the requests they preempted.
--   load_bytes        Bytes of KV loads booked in them; store_bytes likewise.
CREATE OR REPLACE MACRO slowest_gaps(
    since_us, until_us, at_most := 20, floor_us := 0, together_us := 0, only_engine := NULL,
    only_class := NULL, only_route := NULL
) AS TABLE
WITH ended AS (
    SELECT request, arg_min(route, place) AS route, arg_min(context_class, place) AS context_class
    FROM (
        SELECT *, CASE level WHEN 'gap' THEN 1 WHEN 'step' THEN 2 ELSE 3 END AS place
        FROM request
        WHERE wall_us >= since_us
    )
    GROUP BY request
), candidate AS (
    SELECT gap.*, ended.route, ended.context_class
    FROM _gaps(since_us, until_us, floor_us, only_engine) AS gap
    LEFT JOIN ended ON gap.request = ended.request
    WHERE (only_class IS NULL OR ended.context_class = only_class)
      AND (only_route IS NULL OR ended.route = only_route)
), each_one AS (
    SELECT * FROM candidate WHERE together_us = 0
    ORDER BY itl_us DESC, wall_us, request
    LIMIT at_most
), in_window AS (
    SELECT
        *, wall_us // nullif(together_us, 0) AS slot,
        max(itl_us) OVER (
            PARTITION BY engine, level, wall_us // nullif(together_us, 0)
        ) AS longest_us
    FROM candidate
    WHERE together_us > 0
), by_window AS (
    SELECT
        * EXCLUDE (slot, longest_us)
        REPLACE (CAST(sum(outputs) FILTER (2 * itl_us >= longest_us) OVER (
            PARTITION BY engine, level, slot
        ) AS BIGINT) AS outputs)
    FROM in_window
    QUALIFY row_number() OVER (
        PARTITION BY engine, level, slot ORDER BY itl_us DESC, wall_us, request
    ) = 1
), longest AS (
    SELECT * FROM (SELECT * FROM each_one UNION ALL SELECT * FROM by_window)
    ORDER BY itl_us DESC, wall_us, request
    LIMIT at_most
), beside AS (
    SELECT
        longest.engine, longest.wall_us, longest.itl_us, longest.request,
        count(*) FILTER (step.outlier IS DISTINCT FROM true) AS steps,
        max(step.itl_us) AS engine_itl_us,
        CAST(sum(step.prefill_tokens) AS BIGINT) AS prefill_tokens,
        CAST(sum(step.preempted) AS BIGINT) AS preempted,
        CAST(sum(step.load_bytes) AS BIGINT) AS load_bytes,
        CAST(sum(step.store_bytes) AS BIGINT) AS store_bytes
    FROM (SELECT DISTINCT engine, wall_us, itl_us, request FROM longest) AS longest
    JOIN engine_step AS step
        ON longest.engine = step.engine
        AND step.wall_us > longest.wall_us - longest.itl_us AND step.wall_us <= longest.wall_us
    WHERE step.wall_us >= since_us - 60000000 AND step.wall_us < until_us
    GROUP BY ALL
)
SELECT
    longest.wall_us, make_timestamp(longest.wall_us) AS time, longest.engine, longest.level,
    longest.itl_us, longest.request, longest.chunk_index, longest.tokens_in_output,
    longest.outputs, longest.route, longest.context_class,
    beside.steps, beside.engine_itl_us, beside.prefill_tokens, beside.preempted,
    beside.load_bytes, beside.store_bytes
FROM longest
LEFT JOIN beside
    ON longest.engine = beside.engine AND longest.wall_us = beside.wall_us
    AND longest.itl_us = beside.itl_us AND longest.request IS NOT DISTINCT FROM beside.request
ORDER BY longest.itl_us DESC, longest.wall_us, longest.request;
