-- kv_hits_of_steps: KV hit rate per engine and tier from what each step looked up, beside kv_hits,
-- which takes it from the counters of the metrics page. Steps tell of two caches only.
-- Arguments:
--   since_us     First moment, UTC microseconds.
--   until_us     Moment after the last one.
--   step_us      Length of a window; NULL for one window over the whole range.
--   only_engine  An engine id, or NULL for all.
-- Columns: as kv_hits, basis is 'engine steps'
--   tier       device (prefix cache on the GPU) or external (what the KV connector found).
--   hits       Prompt tokens found in that tier.
--   queries    Prompt tokens looked up in it.
--   hit_ratio  hits / queries; NULL when nothing was asked, 0 when nothing was found.
CREATE OR REPLACE MACRO kv_hits_of_steps(
    since_us, until_us, step_us := NULL, only_engine := NULL
) AS TABLE
WITH step AS (
    SELECT
        CASE
            WHEN step_us IS NULL THEN CAST(since_us AS BIGINT)
            ELSE wall_us - wall_us % step_us
        END AS wall_us,
        engine, unnest([
            {'tier': 'device', 'hits': prefix_hits, 'queries': prefix_queries},
            {'tier': 'external', 'hits': external_hits, 'queries': external_queries}
        ]) AS looked
    FROM engine_step
    WHERE wall_us >= since_us AND wall_us < until_us
      AND (only_engine IS NULL OR engine = only_engine)
), added AS (
    SELECT
        wall_us, engine, looked.tier AS tier,
        CAST(sum(looked.hits) AS BIGINT) AS hits, CAST(sum(looked.queries) AS BIGINT) AS queries
    FROM step
    WHERE looked.hits IS NOT NULL AND looked.queries IS NOT NULL
    GROUP BY ALL
)
SELECT
    wall_us, make_timestamp(wall_us) AS time, engine, tier, hits, queries,
    hits / nullif(queries, 0) AS hit_ratio, 'engine steps' AS basis,
    CASE WHEN hits > queries THEN 'hits exceed queries' END AS flag
FROM added
ORDER BY engine, tier, wall_us;
