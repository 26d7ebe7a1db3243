"""The half of the archive in what is asked about an instance's launches."""

# Columns as in fleet.LAUNCH.
ARCHIVED = """
SELECT l.instance_id, l.number, l.state, l.dp, l.cp, l.tp, l.pp, l.token, l.facts, l.opened_at, l.completed_at, l.unchecked,
 l.ended_at, l.ended_reason, '' AS claims FROM controlplane_archivedlaunch l"""
REGISTERED = """
SELECT r.launch, COUNT(*) FROM controlplane_rank r
WHERE r.instance_id = %s AND r.launch BETWEEN %s AND %s AND r.left_at IS NULL GROUP BY r.launch
UNION ALL SELECT a.number, a.registered FROM controlplane_archivedlaunch a
WHERE a.instance_id = %s AND a.number BETWEEN %s AND %s"""
