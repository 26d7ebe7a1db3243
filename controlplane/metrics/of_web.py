"""What a web process tells of itself: requests and live sockets. With several processes each is scraped by itself."""

from .metric import counter, gauge, histogram

REQUESTS = counter(
    "pdcp_http_requests",
    "HTTP requests, by what was asked: page, api, admin, wire (forwarded to the bootstrap process), static, own (/livez,"
    " /readyz, /metrics)",
    "area",
    "method",
    "status",
)
REQUEST_SECONDS = histogram(
    "pdcp_http_request_seconds",
    "From the request to the end of its answer. Long polls take as long as they were asked to",
    "area",
    bounds=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
UNDER_WAY = gauge("pdcp_http_requests_under_way", "Requests that are being answered")
SOCKETS = gauge("pdcp_sockets", "Live sockets that are open")
SOCKET_LIMIT = gauge("pdcp_socket_limit", "How many there may be (PDCP_SOCKET_LIMIT)")
SOCKETS_ENDED = counter(
    "pdcp_sockets_ended", "Live sockets that were closed from here, by the code that was told", "code"
)
REPORTED = counter(
    "pdcp_reported_requests",
    "Requests that gateways reported to this process, by how they ended, as they name it",
    "outcome",
)
REPORTED_RUNGS = counter(
    "pdcp_reported_rungs",
    "Rungs of the way of rooms that workers reported to this process, whether they are kept or not",
    "rung",
    "result",
)
RUNG_SECONDS = histogram(
    "pdcp_reported_rung_seconds",
    "How long a worker says it took since its rung before. resolved: to find the prefill; connected: to have memory and ask;"
    " verified: the transfer, and the prefill's own time; consumed: to take it",
    "rung",
    bounds=(0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
AREAS = ("page", "api", "admin", "wire", "static", "own")
CODES = ("1011", "1013", "4400", "4401", "4403", "4404", "4408", "4429")
