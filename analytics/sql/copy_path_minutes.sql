-- copy_path_minutes: as copy_path for hours and days, from the rollup per minute.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   limit_ratio  Saturation above which a link counts as busy.
--   only_device  A device id, or NULL for all.
-- Columns:
--   device                  GPU, see table device.
--   direction               rx (to the GPU, H2D, load) or tx (from the GPU, D2H, store).
--   minutes, minutes_above  Minutes that were measured, and those with a reading above limit_ratio.
--   mean_bytes_per_second   Mean rate; each reading weighs the same.
--   max_bytes_per_second    Rate of the busiest reading.
--   saturation_max_ratio    Largest rate / ceiling of a reading.
CREATE OR REPLACE MACRO copy_path_minutes(
    since_us, until_us, limit_ratio := 0.85, only_device := NULL
) AS TABLE
WITH both_ways AS (
    SELECT wall_us, device, samples, unnest([
        {'direction': 'rx', 'mean': rx_window_mean_bytes_per_second_avg,
         'peak': rx_window_mean_bytes_per_second_max, 'saturation': rx_saturation_ratio_max},
        {'direction': 'tx', 'mean': tx_window_mean_bytes_per_second_avg,
         'peak': tx_window_mean_bytes_per_second_max, 'saturation': tx_saturation_ratio_max}
    ]) AS way
    FROM gpu_link_1m
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_device IS NULL OR device = only_device)
)
SELECT
    device, way.direction AS direction,
    count(DISTINCT wall_us) FILTER (way.saturation IS NOT NULL) AS minutes,
    count(DISTINCT wall_us) FILTER (way.saturation > limit_ratio) AS minutes_above,
    sum(way.mean * samples) / sum(samples) FILTER (way.mean IS NOT NULL) AS mean_bytes_per_second,
    max(way.peak) AS max_bytes_per_second,
    max(way.saturation) AS saturation_max_ratio
FROM both_ways
GROUP BY ALL
ORDER BY device, direction;
