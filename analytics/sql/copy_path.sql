-- _link_direction: gpu_link with one row per reading and direction.
-- Arguments: as copy_path.
-- Columns: what copy_path adds up, without the prefixes rx_ and tx_.
CREATE OR REPLACE MACRO _link_direction(since_us, until_us, only_device) AS TABLE
WITH both_ways AS (
    SELECT
        wall_us, device, window_us, state, method, coverage_ratio, link_generation, link_width,
        max_link_generation, max_link_width, both_busy, link_downtrained, reason,
        unnest([
            {'direction': 'rx', 'rate': rx_window_mean_bytes_per_second,
             'ceiling': rx_ceiling_bytes_per_second, 'kind': rx_ceiling_kind,
             'saturation': rx_saturation_ratio, 'raw': rx_raw_ratio},
            {'direction': 'tx', 'rate': tx_window_mean_bytes_per_second,
             'ceiling': tx_ceiling_bytes_per_second, 'kind': tx_ceiling_kind,
             'saturation': tx_saturation_ratio, 'raw': tx_raw_ratio}
        ]) AS way
    FROM gpu_link
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_device IS NULL OR device = only_device)
)
SELECT
    wall_us, device, window_us, state, method, coverage_ratio, link_generation, link_width,
    max_link_generation, max_link_width, both_busy, link_downtrained, reason,
    way.direction AS direction, way.rate AS rate, way.ceiling AS ceiling, way.kind AS kind,
    way.saturation AS saturation, way.raw AS raw
FROM both_ways;

-- copy_path: what the link between host and GPU carried, per GPU and direction, against what it can.
-- Means weigh each reading by its window. Nothing measured is NULL, never 0.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   limit_ratio  Saturation above which a link counts as busy.
--   only_device  A device id, or NULL for all.
-- Columns:
--   wall_us, time              Begin of the window (UTC).
--   device                     GPU, see table device.
--   direction                  rx (to the GPU, H2D, load) or tx (from the GPU, D2H, store).
--   readings, measured         Readings in the window, and those that have a rate.
--   last_us                    When the newest reading was taken.
--   mean_bytes_per_second      Mean rate.
--   max_bytes_per_second       Rate of the busiest reading.
--   ceiling_bytes_per_second   What the link can achieve, by the newest reading.
--   ceiling_kind               default, learned or calibrated.
--   saturation_mean_ratio      Mean of rate / ceiling.
--   saturation_max_ratio       Largest rate / ceiling of a reading.
--   above_us, measured_us      Time above limit_ratio, out of the time of readings that tell.
--   raw_mean_ratio             Mean of rate / theoretical rate of the link.
--   raw_max_ratio              Largest of it.
--   link_generation            PCIe generation now; link_width is that of its lanes.
--   max_link_generation        What card and slot could do; max_link_width likewise.
--   method                     How the newest reading was taken.
--   coverage_ratio             Share of the measured time that the method saw at all.
--   both_busy_ratio            Share of the time with both directions above 60 %; their ceilings are
--                              lower then.
--   downtrained_ratio          Share of the loaded time with a link slower or narrower than possible.
--                              NULL when it was never loaded, since an idle link rests.
--   state                      By the newest reading.
--   reason                     Newest reason why something is missing, else NULL.
CREATE OR REPLACE MACRO copy_path(
    since_us, until_us, step_us := NULL, limit_ratio := 0.85, only_device := NULL
) AS TABLE
WITH added AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        device, direction,
        count(*) AS readings,
        count(rate) AS measured,
        max(wall_us) AS last_us,
        sum(rate * window_us) / sum(window_us) FILTER (rate IS NOT NULL) AS mean_rate,
        max(rate) AS max_rate,
        arg_max_null(ceiling, wall_us) AS ceiling,
        arg_max_null(kind, wall_us) AS ceiling_kind,
        sum(saturation * window_us) / sum(window_us) FILTER (saturation IS NOT NULL) AS mean_ratio,
        max(saturation) AS max_ratio,
        sum(CASE WHEN saturation > limit_ratio THEN window_us ELSE 0 END)
            FILTER (saturation IS NOT NULL) AS above_us,
        sum(window_us) FILTER (saturation IS NOT NULL) AS measured_us,
        sum(raw * window_us) / sum(window_us) FILTER (raw IS NOT NULL) AS raw_mean,
        max(raw) AS raw_max,
        arg_max_null(link_generation, wall_us) AS link_generation,
        arg_max_null(link_width, wall_us) AS link_width,
        arg_max_null(max_link_generation, wall_us) AS max_link_generation,
        arg_max_null(max_link_width, wall_us) AS max_link_width,
        arg_max_null(method, wall_us) AS method,
        sum(coverage_ratio * window_us) FILTER (rate IS NOT NULL)
            / sum(window_us) FILTER (rate IS NOT NULL AND coverage_ratio IS NOT NULL) AS coverage,
        sum(CASE WHEN both_busy THEN window_us ELSE 0 END) FILTER (both_busy IS NOT NULL)
            / sum(window_us) FILTER (both_busy IS NOT NULL) AS both_busy,
        sum(CASE WHEN link_downtrained THEN window_us ELSE 0 END)
            FILTER (link_downtrained IS NOT NULL)
            / sum(window_us) FILTER (link_downtrained IS NOT NULL) AS downtrained,
        arg_max_null(state, wall_us) AS state,
        max_by(reason, wall_us) FILTER (reason IS NOT NULL) AS reason
    FROM _link_direction(since_us, until_us, only_device)
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, device, direction, readings, measured, last_us,
    mean_rate AS mean_bytes_per_second, max_rate AS max_bytes_per_second,
    ceiling AS ceiling_bytes_per_second, ceiling_kind,
    mean_ratio AS saturation_mean_ratio, max_ratio AS saturation_max_ratio,
    CAST(above_us AS BIGINT) AS above_us, CAST(measured_us AS BIGINT) AS measured_us,
    raw_mean AS raw_mean_ratio, raw_max AS raw_max_ratio,
    link_generation, link_width, max_link_generation, max_link_width,
    method, coverage AS coverage_ratio, both_busy AS both_busy_ratio,
    downtrained AS downtrained_ratio, state, reason
FROM added
ORDER BY device, direction, wall_us;
