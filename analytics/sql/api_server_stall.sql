-- _spans: slots of 100 ms that pauses before chunks touch, one more at the end: a chunk leaves right
-- after its step.
-- Arguments:
--   begin_us, end_us  The pause.
-- Returns: BIGINT[] numbers of slots, counted from 1970.
CREATE OR REPLACE MACRO _spans(begin_us, end_us) AS (
    generate_series(begin_us // 100000, end_us // 100000 + 1)
);

-- api_server_stall: what the server between engine and client adds to pauses. The engine's own gaps
-- are blind to it: they are taken from its clock, while the server's event loop may stand still.
-- Of each pause before a chunk the engine's longest gap in the time it spans is taken off, and what
-- the way to the client always adds: the median of what is left over the whole range (chunks of
-- several outputs, for example). The rest, where positive, is stall. Both are durations, each by a
-- monotonic clock; the wall clock only says which belong together. It is conservative: a long gap of
-- any request of the engine excuses the server, and a server that always stalls excuses itself (then
-- offset_us says so).
-- From raw rows: for ranges of minutes.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
-- Columns:
--   wall_us, time          Begin of the window (UTC).
--   engine                 Engine id.
--   gaps                   Pauses of clients that ended in the window.
--   matched                Those in whose time a step of the engine is known.
--   offset_us              What is taken off each of them; NULL when none is matched in the range.
--   stall_us               Stall of all matched pauses together: requests held up, times how long.
--                          NULL when none is matched, or one side is missing.
--   longest_stall_us       That of the worst pause.
--   longest_gap_us         The longest pause of a client.
--   longest_engine_gap_us  The longest gap of a step in the window; NULL without steps.
CREATE OR REPLACE MACRO api_server_stall(
    since_us, until_us, step_us := 1000000, only_engine := NULL
) AS TABLE
WITH pause AS (
    SELECT
        wall_us, engine, itl_us,
        (wall_us - itl_us) // 100000 AS begin_slot, wall_us // 100000 AS end_slot
    FROM token_gap
    WHERE wall_us >= since_us AND wall_us < until_us AND itl_us IS NOT NULL
      AND (only_engine IS NULL OR engine = only_engine)
), worked AS (
    SELECT engine, wall_us // 100000 AS slot, max(itl_us) AS engine_us
    FROM engine_step
    -- A pause may have begun before the range, and its step may be stamped just after it.
    WHERE wall_us >= since_us - 60000000 AND wall_us < until_us + 1000000 AND itl_us IS NOT NULL
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
), touched AS (
    SELECT
        engine, begin_slot, end_slot,
        unnest(_spans(begin_slot * 100000, end_slot * 100000)) AS slot
    FROM (SELECT DISTINCT engine, begin_slot, end_slot FROM pause)
), spanned AS (
    SELECT engine, begin_slot, end_slot, max(engine_us) AS engine_us
    FROM touched JOIN worked USING (engine, slot)
    GROUP BY ALL
), matched AS (
    SELECT
        wall_us, engine, itl_us,
        CAST(itl_us AS BIGINT) - CAST(spanned.engine_us AS BIGINT) AS more_us
    FROM pause LEFT JOIN spanned USING (engine, begin_slot, end_slot)
), way AS (
    SELECT
        engine, CASE WHEN count(more_us) > 0 THEN greatest(0, median(more_us)) END AS offset_us
    FROM matched
    GROUP BY engine
), clients AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, count(*) AS gaps, count(more_us) AS matched, any_value(offset_us) AS offset_us,
        sum(greatest(0, more_us - offset_us)) AS stall_us,
        max(greatest(0, more_us - offset_us)) AS longest_stall_us,
        max(itl_us) AS longest_gap_us
    FROM matched JOIN way USING (engine)
    GROUP BY ALL
), engines AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, max(itl_us) AS longest_engine_gap_us
    FROM engine_step
    WHERE wall_us >= since_us AND wall_us < until_us AND itl_us IS NOT NULL
      AND (only_engine IS NULL OR engine = only_engine)
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine,
    coalesce(gaps, 0) AS gaps, coalesce(matched, 0) AS matched, offset_us,
    CASE WHEN matched > 0 THEN CAST(round(stall_us) AS BIGINT) END AS stall_us,
    CASE WHEN matched > 0 THEN CAST(round(longest_stall_us) AS BIGINT) END AS longest_stall_us,
    longest_gap_us, longest_engine_gap_us
FROM clients FULL JOIN engines USING (wall_us, engine)
ORDER BY engine, wall_us;
