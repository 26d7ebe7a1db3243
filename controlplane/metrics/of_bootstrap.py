"""What the bootstrap process tells: the wires, rooms, commits, probes, and the ranks of each instance.

All but `pdcp_leading` come from the process that leads; they begin anew with each term.
"""

from .metric import counter, gauge, histogram

WAIT_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600)
COMMIT_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4)
LONG_BOUNDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400)

LEADING = gauge("pdcp_leading", "1 while this bootstrap process leads, 0 while it stands by")
TERM = gauge("pdcp_term", "The fencing token of the term: it grows with every change of the leader")

# --- The wires
REGISTRATIONS = counter("pdcp_registrations", "PUT /route that could be read, also of ranks that are known")
PUBLICATIONS = counter("pdcp_engine_publications", "PUT /register_transfer_engine_info that could be read")
HEARTBEATS = counter("pdcp_heartbeats", "Heartbeats of worker processes")
LOOKUPS = counter("pdcp_lookups", "Reads of topology, ranks, rooms and engine info, whatever they found")
LOOKUP_MISSES = counter(
    "pdcp_lookup_misses",
    "Of these, those that found nothing: incomplete (503), unknown (404), malformed (400). Rooms: pdcp_rooms_asked",
    "what",
    "why",
)
REFUSALS = counter("pdcp_refusals", "Requests on either wire that were refused with a sentence, by its code", "reason")
POLLS = counter("pdcp_health_polls", "Polls of an instance's /health, by the status that was told", "status")
CONNECTIONS = gauge("pdcp_connections", "Open connections to both wires")
CONNECTION_LIMIT = gauge("pdcp_connection_limit", "How many connections there may be")
CONNECTIONS_CLOSED = counter(
    "pdcp_connections_closed_for_room", "Idle connections that were closed because there were too many"
)

# --- Rooms
ROOMS = gauge("pdcp_rooms", "Bindings of rooms that are held")
ROOM_LIMIT = gauge("pdcp_room_limit", "How many bindings may be held (PDCP_ROOM_LIMIT)")
ROOMS_BOUND = counter("pdcp_rooms_bound", "Bindings that were stored")
ROOMS_EXPIRED = counter("pdcp_rooms_expired", "Bindings that ended because their time was over")
ROOMS_EVICTED = counter(
    "pdcp_rooms_evicted", "Bindings that ended early because the limit was reached: the oldest go first"
)
ROOMS_REJECTED = counter("pdcp_rooms_rejected", "Bindings that could not be stored; their senders were told (503)")
COLLISIONS = counter("pdcp_room_collisions", "Rooms that were bound to another DP rank while their first binding lived")
REUSED = counter(
    "pdcp_rooms_reused", "Rooms that were bound once more shortly after their binding was over: late, or used twice"
)
ROOMS_ASKED = counter("pdcp_rooms_asked", "Rooms that look-ups asked for")
ROOMS_ANSWERED = counter("pdcp_rooms_answered", "Of these, those that were found")

# --- How long decodes wait
WAIT_SECONDS = histogram(
    "pdcp_wait_seconds",
    "From the first look-up that was not answered to the one that was. topology: a decode's host for an instance to be"
    " complete; room: for a room to be bound. Who was answered at once is not in it",
    "phase",
    bounds=WAIT_BOUNDS,
)
WAITING = gauge("pdcp_waiting", "Who has asked, and was not answered yet", "phase")
WAITS_ENDED = counter(
    "pdcp_waits_given_up",
    "Waits that ended without an answer (nobody asked again in time), and those beyond what is followed at once",
    "phase",
)
PHASES = ("topology", "room")

# --- Commits and the ledger
COMMIT_SECONDS = histogram(
    "pdcp_commit_seconds", "How long a transaction of the group commit took", "recorder", bounds=COMMIT_BOUNDS
)
COMMIT_OPERATIONS = histogram(
    "pdcp_commit_operations",
    "How many operations one transaction stored together",
    "recorder",
    bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096),
)
COMMIT_FAILURES = counter(
    "pdcp_commit_failures",
    "Transactions that did not succeed: away (the database does not answer, or is locked), unknown (its outcome was not"
    " told), broken (something in it cannot be stored: its operations are tried one by one)",
    "recorder",
    "why",
)
NOT_STORED = counter(
    "pdcp_operations_not_stored", "Operations whose senders were told that they could not be stored (503)"
)
RECORDERS = ("facts", "rooms")
FAILURES = ("away", "unknown", "broken")
REVISION = gauge("pdcp_ledger_revision", "The last revision of the ledger that this process has written or read")
EVENTS = counter("pdcp_events", "Events of the ledger since this process leads, whoever wrote them", "kind")

# --- Probes
PROBES = counter(
    "pdcp_probes",
    "Probes of ranks, by what was heard: up (greets as a rank does), silent, stranger (answers otherwise), refused,"
    " unreached, unprobed",
    "result",
)
PROBE_SECONDS = histogram(
    "pdcp_probe_seconds",
    "How long ranks took to answer a probe",
    bounds=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2),
)
SWEEPS = counter("pdcp_probe_sweeps", "Rounds in which every registered address was asked")
SWEEP_SECONDS = gauge("pdcp_probe_sweep_seconds", "How long the last of these rounds took")
TARGETS = gauge("pdcp_probe_targets", "How many addresses were asked in it")
PAUSED = gauge("pdcp_verdicts_paused", "1 while verdicts are paused because most targets fail together")

# --- Launches and instances
READY_SECONDS = histogram(
    "pdcp_launch_ready_seconds",
    "From the first rank of a launch to all of them registered and proven",
    bounds=LONG_BOUNDS,
)
UNHEALTHY_SECONDS = histogram(
    "pdcp_unhealthy_seconds", "For how long /health of an instance was 503, once it was 200 again", bounds=LONG_BOUNDS
)
DRAIN_SECONDS = histogram(
    "pdcp_drain_seconds",
    "How long drains took, by how they ended (drained, forced, cancelled)",
    "outcome",
    bounds=LONG_BOUNDS,
)
EXPECTED = gauge("pdcp_instance_ranks_expected", "Ranks that the launch which serves has", "pd_instance", "role")
REGISTERED = gauge("pdcp_instance_ranks_registered", "Of these, those that are registered", "pd_instance", "role")
ANSWERING = gauge(
    "pdcp_instance_ranks_answering", "Of these, those that answered their last probe", "pd_instance", "role"
)
CANDIDATES = gauge(
    "pdcp_instance_ranks_candidate", "Ranks of the launch that waits to replace it", "pd_instance", "role"
)
LAUNCH = gauge(
    "pdcp_instance_launch", "The number of the launch that serves; a change is a restart", "pd_instance", "role"
)
HEALTHY = gauge(
    "pdcp_instance_healthy", "1 while /health of the instance is 200, 0 while it is 503", "pd_instance", "role"
)
