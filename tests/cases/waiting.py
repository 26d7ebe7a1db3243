"""Cases, or the parts of them, that no test here proves yet: what each waits for."""

GATEWAY = "the gateway (router)"

WAITING: dict[str, str] = {
    # Whole cases.
    "RDY-05": f"{GATEWAY}: its readiness is that of its pairs",
    "RDY-06": f"{GATEWAY}: a canary before the first burst, breakers that recover in time",
    "RDY-10": f"{GATEWAY}: one broken worker does not stop its start",
    "TOP-04": f"{GATEWAY}: pairs are checked before a request is sent (the rank mapping refuses them already)",
    "TOP-07": f"{GATEWAY}: unequal context lengths, the prefill leg cancelled",
    "ROOM-02": f"{GATEWAY}: another room for every attempt",
    "ROOM-04": f"{GATEWAY}: rooms that do not depend on what clients send",
    "ROOM-09": f"{GATEWAY}: a pinned rank and the room's modulo agree",
    "ROOM-10": f"{GATEWAY}: batches carry lists of rooms",
    "NET-12": f"{GATEWAY}: a missing bootstrap host is refused, never looked up",
    "RTR-03": f"{GATEWAY}: overload is queued or answered 429 or 503, and opens no breaker",
    "RTR-04": f"{GATEWAY}: a prefill that refuses ends the decode's leg and the client's wait",
    "RTR-05": f"{GATEWAY}: a client that is gone ends both legs",
    "RTR-11": f"{GATEWAY}: one limit for both legs",
    "SCL-08": f"{GATEWAY}: bodies of 60 MB pass, larger ones than its limit are 413 before they are read",
    # The other parts of cases that are tested here.
    "TOP-03": f"{GATEWAY}: when it pins a rank, a room whose modulo agrees",
    "TOP-05": f"{GATEWAY}: a pair of unequal page sizes is refused there too",
    "ROOM-01": f"{GATEWAY}: client rooms are replaced",
    "NET-03": f"{GATEWAY}: loopback is not used across hosts",
    "NET-06": f"{GATEWAY}: a published bootstrap host that is loopback is rejected for remote pairs",
    "NET-10": f"{GATEWAY}: metrics and breakers by address, port and instance",
    "RTR-01": f"{GATEWAY}: its breakers count no 4xx, and pass the answer on",
    "RTR-02": f"{GATEWAY}: no request to a decode alone, one probe after the pause",
    "RTR-06": f"{GATEWAY}: all of its policies choose among those that are available",
    "RTR-08": f"{GATEWAY}: a prefill is chosen with its own port there too",
    "HLT-04": f"{GATEWAY}: requests of the dead prefill fail soon there too, and name it",
    "HLT-08": f"{GATEWAY}: no long work for who is busy",
    "HLT-10": f"{GATEWAY}: an abort of a client reaches both legs",
    "HLT-11": f"{GATEWAY}: its streams end before it does",
    "HLT-13": f"{GATEWAY}: what is left at the limit is aborted on both legs",
    "SEC-06": f"{GATEWAY}: clients' keys",
    "SCL-02": f"{GATEWAY}: idle connections are capped there too",
    "SCL-06": f"{GATEWAY}: 2,000 requests at once through it",
}
