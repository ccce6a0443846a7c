-- uplinks: what the GPUs below a shared bridge carried together, against what its uplink can.
-- NVMe and NIC traffic through the same bridge is not in the sums.
-- Arguments: as copy_path; only_device is a bridge.
-- Columns:
--   wall_us, time             Begin of the window (UTC).
--   device                    Bridge, see table device.
--   direction                 rx (to the GPUs, H2D, load) or tx (from the GPUs, D2H, store).
--   gpus                      GPUs below the bridge.
--   gpus_measured             Fewest that were measured in a reading; below gpus nothing is summed.
--   readings, measured        Readings in the window, and those that have a sum.
--   mean_bytes_per_second     Mean of the sums.
--   max_bytes_per_second      Largest sum.
--   ceiling_bytes_per_second  What the uplink can achieve, by the newest reading.
--   saturation_mean_ratio     Mean of sum / ceiling.
--   saturation_max_ratio      Largest of it.
--   above_us, measured_us     Time above limit_ratio, out of the time of readings that tell.
--   link_generation           PCIe generation of the uplink now; link_width is that of its lanes.
--   reason                    Newest reason why something is missing, else NULL.
CREATE OR REPLACE MACRO uplinks(
    since_us, until_us, step_us := NULL, limit_ratio := 0.85, only_device := NULL
) AS TABLE
WITH both_ways AS (
    SELECT
        wall_us, device, window_us, gpus, gpus_measured, ceiling_bytes_per_second AS ceiling,
        link_generation, link_width, reason,
        unnest([
            {'direction': 'rx', 'rate': rx_window_mean_bytes_per_second,
             'saturation': rx_saturation_ratio},
            {'direction': 'tx', 'rate': tx_window_mean_bytes_per_second,
             'saturation': tx_saturation_ratio}
        ]) AS way
    FROM pcie_uplink
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_device IS NULL OR device = only_device)
), added AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        device, way.direction AS direction,
        arg_max_null(gpus, wall_us) AS gpus,
        min(gpus_measured) AS gpus_measured,
        count(*) AS readings,
        count(way.rate) AS measured,
        sum(way.rate * window_us) / sum(window_us) FILTER (way.rate IS NOT NULL) AS mean_rate,
        max(way.rate) AS max_rate,
        arg_max_null(ceiling, wall_us) AS ceiling,
        sum(way.saturation * window_us)
            / sum(window_us) FILTER (way.saturation IS NOT NULL) AS mean_ratio,
        max(way.saturation) AS max_ratio,
        sum(CASE WHEN way.saturation > limit_ratio THEN window_us ELSE 0 END)
            FILTER (way.saturation IS NOT NULL) AS above_us,
        sum(window_us) FILTER (way.saturation IS NOT NULL) AS measured_us,
        arg_max_null(link_generation, wall_us) AS link_generation,
        arg_max_null(link_width, wall_us) AS link_width,
        max_by(reason, wall_us) FILTER (reason IS NOT NULL) AS reason
    FROM both_ways
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, device, direction, gpus, gpus_measured,
    readings, measured, mean_rate AS mean_bytes_per_second, max_rate AS max_bytes_per_second,
    ceiling AS ceiling_bytes_per_second, mean_ratio AS saturation_mean_ratio,
    max_ratio AS saturation_max_ratio, CAST(above_us AS BIGINT) AS above_us,
    CAST(measured_us AS BIGINT) AS measured_us, link_generation, link_width, reason
FROM added
ORDER BY device, direction, wall_us;
