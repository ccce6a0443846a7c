-- topology_now: what hangs where by the newest look at the machine; what is gone is not in it.
-- Columns: those of table topology.
CREATE OR REPLACE VIEW topology_now AS
SELECT *
FROM topology
WHERE wall_us = (SELECT max(wall_us) FROM topology);

-- topology_findings_now: what the newest look showed. A look that found nothing has no row, and what
-- an older one found does not count any more.
-- Columns: those of table topology_finding.
CREATE OR REPLACE VIEW topology_findings_now AS
SELECT *
FROM topology_finding
WHERE wall_us = (SELECT max(wall_us) FROM topology);
