-- _overlap: the part of an interval that lies in a window.
-- Arguments:
--   begin_us, end_us  The interval.
--   window_us         Begin of the window.
--   step_us           Its length.
-- Returns: BIGINT microseconds.
CREATE OR REPLACE MACRO _overlap(begin_us, end_us, window_us, step_us) AS (
    least(end_us, window_us + step_us) - greatest(begin_us, window_us)
);

-- _windows: begins of the windows that an interval touches.
-- Arguments: begin_us and end_us of the interval, step_us of the windows.
-- Returns: BIGINT[] microseconds.
CREATE OR REPLACE MACRO _windows(begin_us, end_us, step_us) AS (
    list_transform(
        generate_series(begin_us // step_us, (end_us - 1) // step_us), lambda n: n * step_us
    )
);
