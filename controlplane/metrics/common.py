"""What every process tells."""

from .metric import counter, gauge, histogram

BUILD = gauge(
    "pdcp_build_info", "1, with the version of the control plane and what this process is", "version", "process"
)
SUPPRESSED = counter(
    "pdcp_log_lines_suppressed",
    "Lines of the log and the audit that were not written because their source had said the same too often",
)
OUTGOING = counter(
    "pdcp_outgoing_requests",
    "HTTP requests to engines, routers and webhooks: answered (whatever the status), refused (nobody listens), timeout,"
    " unusable (no whole answer), forbidden (the address may not be asked, or too often)",
    "result",
)
OUTGOING_SECONDS = histogram(
    "pdcp_outgoing_request_seconds",
    "How long those that were answered took",
    bounds=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)
OUTGOING_RESULTS = ("answered", "refused", "timeout", "unusable", "forbidden")
BEHIND = gauge(
    "pdcp_ledger_reader_behind_revisions",
    "How far a reader of the ledger is behind its head. inbox: the bootstrap process; stream: the live sockets and long"
    " polls of a web process, while there are any",
    "reader",
)
READABLE = gauge(
    "pdcp_facts_readable",
    "1 when the database answered this scrape in time; else what comes from it is old, or missing",
)
