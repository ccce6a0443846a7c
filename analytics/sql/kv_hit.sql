-- kv_hit: KV hit rate per scrape, engine and tier.
-- Columns: as macro kv_hits; wall_us is when the scrape was taken, and the counts are the growth since
-- the scrape before.
CREATE OR REPLACE VIEW kv_hit AS
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, tier, hits, queries,
    hits / nullif(queries, 0) AS hit_ratio, basis,
    CASE WHEN hits > queries THEN 'hits exceed queries' END AS flag
FROM _kv_tier(0, 9223372036854775807, 0, 'engine_metrics', NULL);
