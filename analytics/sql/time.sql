-- us_ago: a moment before now, in the microseconds of wall_us.
-- Arguments:
--   span  INTERVAL, for example INTERVAL '15 minutes'.
-- Returns: BIGINT, UTC microseconds since 1970.
CREATE OR REPLACE MACRO us_ago(span) AS (
    epoch_us(now()) - CAST(epoch(span) * 1000000 AS BIGINT)
);

-- window_start_us: begin of the window of a fixed length that a moment falls in.
-- Windows are counted from 1970, so the same moment falls in the same window in every query.
-- Arguments:
--   moment_us  UTC microseconds since 1970.
--   span_us    Length of a window in microseconds.
-- Returns: BIGINT, microseconds.
CREATE OR REPLACE MACRO window_start_us(moment_us, span_us) AS (
    moment_us - moment_us % span_us
);
