"""What a socket is about: the whole fleet, or one instance. From the query of its URL, in which no secret may stand."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from controlplane.domain.errors import Refused
from controlplane.domain.fleetstate import OF_FLEET
from controlplane.domain.names import check_name
from controlplane.ledger import position
from controlplane.ledger.position import Position
from controlplane.ledger.tail import EventRow

from .codes import Closed, Code

LONGEST_QUERY = 1000


@dataclass(frozen=True, slots=True)
class Topic:
    """Blank: the whole fleet."""

    instance: str = ""

    def holds(self, event: EventRow) -> bool:
        """Whether whoever follows this topic is told of `event`.

        What gateways and routers do can change what is said of every instance, so followers of one are told it too.
        """
        return not self.instance or event.instance == self.instance or event.kind in OF_FLEET


@dataclass(frozen=True, slots=True)
class Asked:
    """What the URL says."""

    topic: Topic
    after: Position | None = None


def read(query: bytes) -> Asked:
    """The query `after=LEDGER:N&instance=NAME`, both optional. Raises Closed (4400)."""
    if len(query) > LONGEST_QUERY:
        raise Closed(Code.BAD_REQUEST, "the query is too long")
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    given = dict(pairs)
    if strange := sorted(set(given) - {"after", "instance"}):
        # Never repeated: it may be a token, and what is sent here is logged by whoever stands between.
        hint = "a token belongs in a header" if any("tok" in name or "auth" in name for name in strange) else ""
        raise Closed(Code.BAD_REQUEST, ": ".join(filter(None, ["the query takes after and instance only", hint])))
    if len(given) < len(pairs):
        raise Closed(Code.BAD_REQUEST, "the query says something twice")
    try:
        if "instance" in given:
            check_name(given["instance"])
        after = position.read(given["after"]) if "after" in given else None
    except Refused as refused:
        raise Closed(Code.BAD_REQUEST, refused.sentence) from None
    return Asked(Topic(given.get("instance", "")), after)
