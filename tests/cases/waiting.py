"""Cases, or the parts of them, that no test here proves yet: what each waits for."""

SDK = "the worker SDK and agent"
GATEWAY = "the gateway (router)"
API = "the API"
PROBES = "health probes of engines by the clockwork"
METRICS = "the metrics"

WAITING: dict[str, str] = {
    # Whole cases.
    "RDY-02": f"{SDK}: it retries its registration until the directory is there",
    "RDY-04": f"{SDK}: one prefill that hangs must not hold the requests of another",
    "RDY-05": f"{GATEWAY}: its readiness is that of its pairs",
    "RDY-06": f"{GATEWAY}: a canary before the first burst, breakers that recover in time",
    "RDY-10": f"{GATEWAY}: one broken worker does not stop its start",
    "TOP-04": f"{GATEWAY}: pairs are checked before a request is sent (the rank mapping refuses them already)",
    "TOP-07": f"{GATEWAY}: unequal context lengths, the prefill leg cancelled",
    "ROOM-02": f"{GATEWAY}: another room for every attempt",
    "ROOM-04": f"{GATEWAY}: rooms that do not depend on what clients send",
    "ROOM-09": f"{GATEWAY}: a pinned rank and the room's modulo agree",
    "ROOM-10": f"{GATEWAY}: batches carry lists of rooms",
    "NET-04": f"{SDK}: it finds its own address without the internet",
    "NET-09": f"{SDK}: nodes take the leader's port",
    "NET-12": f"{SDK} and {GATEWAY}: a missing bootstrap host is refused, never looked up",
    "RTR-03": f"{GATEWAY}: overload is queued or answered 429 or 503, and opens no breaker",
    "RTR-04": f"{GATEWAY}: a prefill that refuses ends the decode's leg and the client's wait",
    "RTR-05": f"{GATEWAY}: a client that is gone ends both legs",
    "RTR-11": f"{GATEWAY}: one limit for both legs",
    "OPS-04": f"{METRICS}: histograms of each phase; {SDK}: evidence for the timeline of a room",
    # The other parts of cases that are tested here.
    "OPS-01": f"{METRICS}: every exported counter (those that are sampled are tested)",
    "OPS-02": f"{METRICS}: series of what was removed end (what the pages count is tested)",
    "OPS-08": f"{PROBES}: retention and a purge of what is stale (what the pages show is tested)",
    "TOP-01": f"{SDK}: it reports the effective DP rank",
    "TOP-03": f"{SDK} and {GATEWAY}: a recorded rank before arithmetic, rooms whose modulo agrees",
    "TOP-05": f"{GATEWAY}: a pair of unequal page sizes is refused there too",
    "ROOM-01": f"{GATEWAY} and {SDK}: client rooms are replaced, a second request for an active room is refused",
    "ROOM-06": "metrics: entries, evictions and rejections (the soak test has two million)",
    "ROOM-07": f"{SDK}: a late failure notice of an earlier use is ignored",
    "ENG-06": f"{SDK}: fetches with limits, retries and a fallback",
    "ENG-09": f"{SDK}: start slots, or receivers spread over several seeds",
    "NET-01": f"{SDK}: spellings of the bootstrap address, URLs and ZeroMQ endpoints of IPv6",
    "NET-03": f"{SDK} and {GATEWAY}: loopback is not advertised afar, and not used across hosts",
    "NET-06": f"{SDK} and {GATEWAY}: a published bootstrap host that is loopback is rejected for remote pairs",
    "NET-10": f"{GATEWAY}: metrics and breakers by address, port and instance",
    "RTR-01": f"{GATEWAY}: its breakers count no 4xx, and pass the answer on",
    "RTR-02": f"{GATEWAY}: no request to a decode alone, one probe after the pause",
    "RTR-06": f"{GATEWAY}: all of its policies choose among those that are available",
    "RTR-08": f"{GATEWAY}: a prefill is chosen with its own port there too",
    "HLT-01": f"{SDK}: it drops the launch that failed, and none that is newer",
    "HLT-04": f"{SDK} and {GATEWAY}: requests of the dead prefill fail soon, and name it",
    "HLT-05": f"{PROBES}: an address that changes hands while a router holds it",
    "HLT-07": f"{PROBES}: thresholds and intervals of each worker",
    "HLT-08": f"{PROBES}: HTTP, progress and sockets told apart; {GATEWAY}: no long work for who is busy",
    "HLT-10": f"{GATEWAY} and {SDK}: an abort reaches the other leg",
    "HLT-11": f"{GATEWAY}: its streams end before it does",
    "HLT-13": f"{GATEWAY} and {SDK}: what is left at the limit is aborted on both sides",
    "SEC-01": f"{SDK}: it sends the token of its instance",
    "SEC-03": f"{SDK}: its sockets",
    "SEC-06": f"{GATEWAY}: clients' keys",
    "SCL-01": f"{SDK}: pooled connections, one query in flight for an address",
}
