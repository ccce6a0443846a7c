-- request_timeline: the chunks of one request in order, and what the engine did in each pause.
-- Give the range, from a little before its arrival to its end, where it is known: without one the
-- whole lake is searched.
-- Arguments:
--   of_request   Request id.
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   of_engine    Engine whose steps are held against it; NULL takes that of the chunks. The middleware
--                does not see which engine behind its server it was; macro requests knows better.
-- Columns:
--   wall_us, time     When the chunk was sent (UTC).
--   engine            Engine id of the chunk.
--   chunk_index       Its place in the answer.
--   itl_us            Pause before it; NULL for the first, and after chunks that were lost.
--   tokens_in_output  Tokens in it; NULL when unknown, 0 for a chunk without output.
--   after_us          Time since the first chunk that is known.
--   steps             Steps of the engine that ended in the pause; NULL in this column and the next
--                     ones where none is known in that time.
--   engine_itl_us     The longest gap of an output in them.
--   prefill_tokens    Prompt tokens computed in them.
--   preempted         Requests that they preempted.
--   running_max       Most requests running.
CREATE OR REPLACE MACRO request_timeline(
    of_request, since_us := 0, until_us := 9223372036854775807, of_engine := NULL
) AS TABLE
WITH chunk AS (
    SELECT wall_us, engine, chunk_index, itl_us, tokens_in_output
    FROM token_gap
    WHERE request = of_request AND wall_us >= since_us AND wall_us < until_us
), life AS (
    SELECT
        min(wall_us - coalesce(itl_us, 0)) AS begin_us, max(wall_us) AS end_us,
        any_value(engine) AS engine
    FROM chunk
), step AS (
    SELECT wall_us AS step_wall_us, itl_us AS gap_us, outlier, prefill_tokens, preempted, running
    FROM engine_step
    WHERE engine = coalesce(of_engine, (SELECT engine FROM life))
      AND wall_us >= (SELECT begin_us FROM life) AND wall_us <= (SELECT end_us FROM life)
), beside AS (
    SELECT
        chunk_index,
        count(*) FILTER (outlier IS DISTINCT FROM true) AS steps,
        max(gap_us) AS engine_itl_us,
        CAST(sum(prefill_tokens) AS BIGINT) AS prefill_tokens,
        CAST(sum(preempted) AS BIGINT) AS preempted,
        max(running) AS running_max
    FROM chunk JOIN step ON step_wall_us > wall_us - itl_us AND step_wall_us <= wall_us
    GROUP BY chunk_index
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, chunk_index, itl_us, tokens_in_output,
    wall_us - min(wall_us) OVER () AS after_us,
    steps, engine_itl_us, prefill_tokens, preempted, running_max
FROM chunk LEFT JOIN beside USING (chunk_index)
ORDER BY chunk_index;
