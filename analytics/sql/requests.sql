-- tpot_us: mean time per output token of a request after the first.
-- Arguments:
--   pause_us       First to last token: end to end less time to first token, by one and the same clock.
--   output_tokens  Tokens of the answer.
-- Returns: DOUBLE microseconds; NULL for an answer of one token, which has no pause.
CREATE OR REPLACE MACRO tpot_us(pause_us, output_tokens) AS (
    CASE WHEN output_tokens > 1 THEN pause_us / (CAST(output_tokens AS BIGINT) - 1) END
);

-- _at_least_zero: a difference of two durations that cannot be negative.
-- Arguments:
--   difference_us  Negative where a wall clock was set back meanwhile.
-- Returns: The difference, NULL where it cannot be.
CREATE OR REPLACE MACRO _at_least_zero(difference_us) AS (
    CASE WHEN difference_us >= 0 THEN difference_us END
);

-- requests: requests that ended in a range, one row each. The middleware (level gap), the engine's
-- statistics (step) and traces (trace) tell of one request in a row each; what the better one leaves
-- open another one fills. No difference is taken between the times of two levels, only between
-- durations, and end to end less time to first token only within a level, where both have one clock.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time           When it ended (UTC), by its best level.
--   engine                  Engine id.
--   request                 Request id, see table request_name.
--   levels                  Who told of it, the best first: 'gap, step'.
--   arrival_wall_us         When it arrived.
--   route                   Path of the HTTP request, else the model that its trace names.
--   context_class           Class of its prompt's length.
--   prompt_tokens, output_tokens, cached_tokens, preemptions, chunks, status, finish
--                           As in table request.
--   ttft_us                 Arrival to first token, time in the queue inside.
--   ttft_clock              'monotonic' (level gap) or 'wall' (the front end's wall clock).
--   queue_us                Time in the engine's queue.
--   ttft_without_queue_us   ttft_us less queue_us: prefill and what the server adds to it. NULL where
--                           one is unknown, or where the clock of the one was set meanwhile.
--   prefill_us, decode_us   By the engine's monotonic clock, from being scheduled.
--   e2e_us                  Arrival to last token.
--   tpot_us                 Mean time per token after the first, see tpot_us().
--   tpot_basis              'e2e - ttft', or 'decode' where no level knows both.
CREATE OR REPLACE MACRO requests(since_us, until_us, only_engine := NULL) AS TABLE
WITH told AS (
    -- A minute more on either side: the levels of a request do not end it at the same moment.
    SELECT
        *, CASE level WHEN 'gap' THEN 1 WHEN 'step' THEN 2 ELSE 3 END AS place,
        -- The middleware does not see which engine behind its server it was.
        CASE level WHEN 'step' THEN 1 WHEN 'trace' THEN 2 ELSE 3 END AS engine_place,
        _at_least_zero(e2e_us - ttft_us) AS pause_us
    FROM request
    WHERE wall_us >= since_us - 60000000 AND wall_us < until_us + 60000000
), merged AS (
    SELECT
        request,
        arg_min(wall_us, place) AS wall_us,
        arg_min(engine, engine_place) AS engine,
        string_agg(DISTINCT level, ', ' ORDER BY level) AS levels,
        arg_min(arrival_wall_us, place) AS arrival_wall_us,
        arg_min(route, place) AS route,
        arg_min(context_class, place) AS context_class,
        arg_min(prompt_tokens, place) AS prompt_tokens,
        arg_min(output_tokens, place) AS output_tokens,
        arg_min(cached_tokens, place) AS cached_tokens,
        arg_min(preemptions, place) AS preemptions,
        arg_min(chunks, place) AS chunks,
        arg_min(status, place) AS status,
        arg_min(finish, place) AS finish,
        arg_min(ttft_us, place) AS ttft_us,
        min(place) FILTER (ttft_us IS NOT NULL) AS ttft_place,
        arg_min(queue_us, place) AS queue_us,
        arg_min(prefill_us, place) AS prefill_us,
        arg_min(decode_us, place) AS decode_us,
        arg_min(e2e_us, place) AS e2e_us,
        arg_min(pause_us, place) AS pause_us
    FROM told
    GROUP BY request
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, request, levels, arrival_wall_us, route,
    context_class, prompt_tokens, output_tokens, cached_tokens, preemptions, chunks, status, finish,
    ttft_us,
    CASE ttft_place WHEN 1 THEN 'monotonic' WHEN 2 THEN 'wall' WHEN 3 THEN 'wall' END AS ttft_clock,
    queue_us, _at_least_zero(ttft_us - queue_us) AS ttft_without_queue_us,
    prefill_us, decode_us, e2e_us,
    tpot_us(coalesce(pause_us, decode_us), output_tokens) AS tpot_us,
    CASE
        WHEN output_tokens IS NULL OR output_tokens < 2 THEN NULL
        WHEN pause_us IS NOT NULL THEN 'e2e - ttft'
        WHEN decode_us IS NOT NULL THEN 'decode'
    END AS tpot_basis
FROM merged
WHERE wall_us >= since_us AND wall_us < until_us AND (only_engine IS NULL OR engine = only_engine)
ORDER BY wall_us, request;
