-- link_ceilings: what the links were seen or measured to achieve, the newest word of each kind.
-- A calibrated ceiling goes before a learned one; without either the collector assumes a default.
-- Arguments:
--   only_device  A device id, or NULL for all.
-- Columns:
--   time                       When it was learned or measured (UTC).
--   device, direction, kind    GPU; rx or tx; learned or calibrated.
--   bytes_per_second           Achievable rate.
--   together_bytes_per_second  The same while the other direction is busy; NULL when not measured.
--   link_generation            PCIe generation it holds for; link_width is that of its lanes.
--   driver, tool               What it was measured with.
CREATE OR REPLACE MACRO link_ceilings(only_device := NULL) AS TABLE
SELECT
    make_timestamp(wall_us) AS time, device, direction, kind, bytes_per_second,
    together_bytes_per_second, link_generation, link_width, driver, tool
FROM link_ceiling
WHERE only_device IS NULL OR device = only_device
QUALIFY row_number() OVER (PARTITION BY device, direction, kind ORDER BY wall_us DESC) = 1
ORDER BY device, direction, kind;
