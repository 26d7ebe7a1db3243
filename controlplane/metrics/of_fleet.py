"""What `/metrics/fleet` of any web process tells: the fleet as the database has it. The same from all of them: scrape one."""

from .metric import counter, gauge

# --- Instances
INSTANCES = gauge("pdcp_instances", "Instances, by role and by what operators want of them", "role", "intent")
SEEN = gauge("pdcp_instances_seen", "Instances that are not retired, by what is seen of them", "role", "state")
ROUTABLE = gauge("pdcp_instances_routable", "Instances that can be sent work", "role")
UNROUTABLE = gauge(
    "pdcp_instances_unroutable",
    "Instances that cannot, by the fact that is against it first: registration, health, intent, breaker",
    "role",
    "fact",
)
INSTANCE_ROUTABLE = gauge("pdcp_instance_routable", "1 while the instance can be sent work", "pd_instance", "role")
RANKS = gauge(
    "pdcp_ranks",
    "Ranks of prefill and decode instances: expected; routable; away (operators want it so); troubled (neither)",
    "state",
)
GROUPS = gauge("pdcp_dp_groups", "DP groups: known; serving", "state")
ENGINES = gauge("pdcp_engines", "Engines' own HTTP servers that are asked, by the verdict", "state")
ENGINE_UP = gauge(
    "pdcp_instance_engine_up",
    "1 while the engine's own server is up or late, 0 while it is starting, silent, down or a stranger; unknown: no series",
    "pd_instance",
)
ENGINE_SECONDS = gauge(
    "pdcp_instance_engine_answer_seconds", "How long the engine took to answer when it was asked last", "pd_instance"
)
CONFLICTS = gauge("pdcp_engine_info_conflicts", "Sessions that claim a rank whose own session answers")

# --- What operators began
DRAINS = gauge("pdcp_drains", "Drains that have not ended, by progress", "progress")
DRAIN_AGE = gauge(
    "pdcp_drain_age_seconds",
    "For how long a drain has been under way; dp is all for an instance",
    "pd_instance",
    "dp",
    "progress",
)
REQUESTS = gauge("pdcp_requests_open", "Requests of operators that the bootstrap process has not answered yet")
REQUEST_AGE = gauge("pdcp_request_oldest_seconds", "Age of the oldest of them; 0 without any")

# --- Who chooses workers, and who reports
GATEWAYS = gauge("pdcp_gateways", "Gateways that have joined: live, or silent for longer than their lease", "state")
GATEWAY_BEHIND = gauge(
    "pdcp_gateway_behind_revisions", "How far a live gateway is behind the head of the ledger", "gateway"
)
BREAKERS = gauge("pdcp_breakers", "Breakers of gateways and routers that are not closed", "state")
ROUTERS = gauge("pdcp_routers", "Routers that are kept in step: in_step, changing, away, unknown", "state")
WORKER_LEASES = gauge("pdcp_worker_leases", "Worker processes that send heartbeats: live, or late", "state")

# --- Our own processes
LEADER = gauge("pdcp_leader_seen", "1 while a bootstrap process renews the lease")
HEAD = gauge("pdcp_ledger_head_revision", "The head of the ledger")
TASK_ROUNDS = counter("pdcp_task_rounds", "Rounds of a periodic task that were begun, by whichever worker", "task")
TASK_LATE = gauge(
    "pdcp_task_late_seconds", "By how long the next round of a task is overdue; 0 while it is not", "task"
)
TASK_TOOK = gauge("pdcp_task_took_seconds", "How long its last round took", "task")
TASK_FAILURES = gauge("pdcp_task_failures", "How many of its last rounds failed in a row", "task")
TASK_OK_AGE = gauge("pdcp_task_ok_age_seconds", "Since when a round has ended well", "task")
QUEUE = gauge("pdcp_queue_length", "Messages that wait for a Celery worker")
BROKER = gauge("pdcp_broker_reachable", "1 when Redis answered this scrape in time")
ALARMS = gauge("pdcp_alarms", "Alarms that are open; acknowledged: yes or no", "severity", "acknowledged")
NOTICES = gauge("pdcp_alarm_notices", "Messages to the alarm webhook that are kept, by state", "state")
NOTICE_AGE = gauge("pdcp_alarm_notice_oldest_seconds", "Age of the oldest that still waits to be taken; 0 without any")
TRIMMED = counter("pdcp_trimmed_rows", "Rows that were deleted because they were old, by what they were", "subject")
