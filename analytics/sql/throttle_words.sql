-- throttle_words: names of NVML's clock event reasons (nvml.h 13.5, nvmlClocksEventReason...).
-- Arguments:
--   mask  Column throttle_reasons of gpu_state.
-- Returns: VARCHAR, comma separated; 'none' when no reason is set, NULL when the mask is. Bits that
-- are newer than this list are named by their number.
CREATE OR REPLACE MACRO throttle_words(mask) AS (
    CASE WHEN mask = 0 THEN 'none' WHEN mask IS NOT NULL THEN
        array_to_string(list_transform(
            list_filter(generate_series(0, 62), lambda bit: (mask >> bit) & 1 = 1),
            lambda bit: coalesce([
                'idle', 'clocks set by user', 'power cap', 'hardware slowdown', 'sync boost',
                'thermal slowdown', 'hardware thermal slowdown', 'hardware power brake',
                'display clocks', 'board limit', 'reliability'
            ][bit + 1], 'bit ' || bit)
        ), ', ')
    END
);
