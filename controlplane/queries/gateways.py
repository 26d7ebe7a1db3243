"""Gateways and what they and the workers reported, as rows: who is silent, who is behind, what was open when."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controlplane.databases import READER, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import Cursor, head
from controlplane.models import ALL_GROUPS, Breaker, Gateway, OpenRooms, OutcomeCount

from .fleet import snapshot
from .wording import ago, counted, span

OUTCOME_ROWS = 5000


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """`behind`: revisions it has not acknowledged, None when it acknowledged nothing of this ledger.

    `open_breakers`: instances and groups that it does not send to, or only probes.
    """

    name: str
    url: str
    joined_at: float
    seen_at: float
    lease_seconds: float
    acknowledged_ledger: str
    acknowledged_revision: int
    left_at: float | None
    behind: int | None
    open_breakers: int

    def silent(self, now: float) -> bool:
        """Its lease is over and it has not left: it may still admit, from its last snapshot."""
        return self.left_at is None and now - self.seen_at > self.lease_seconds

    def state(self, now: float) -> str:
        """One word: present, silent or left."""
        if self.left_at is not None:
            return "left"
        return "silent" if self.silent(now) else "present"

    def has_acknowledged(self, cursor: Cursor) -> bool:
        return self.acknowledged_ledger == cursor.ledger_id and self.acknowledged_revision >= cursor.revision

    def sentence(self, now: float) -> str:
        if self.left_at is not None:
            return f"{self.name} left {ago(self.left_at, now)}."
        if self.silent(now):
            lease = span(self.lease_seconds)
            return (
                f"{self.name} was last heard from {ago(self.seen_at, now)}, its lease is {lease}: it may still admit"
                " requests, so drains wait for it. Remove it if it is gone."
            )
        if self.behind is None:
            return f"{self.name} has joined, and has not acknowledged anything yet."
        if self.behind:
            return f"{self.name} is {counted(self.behind, 'revision')} behind."
        return f"{self.name} follows."


@dataclass(frozen=True, slots=True)
class OpenRoomsRow:
    """One witness's last word on one DP group (None: the whole instance)."""

    kind: str
    source: str
    instance: str
    group: int | None
    launch_token: str
    open_rooms: int
    taken_at: float
    received_at: float


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    minute: int
    gateway: str
    prefill: str
    decode: str
    outcome: str
    count: int


def listing(*, left: bool = False) -> tuple[GatewayRow, ...]:
    """Gateways by name; those that have left only when asked for."""
    with snapshot():
        found = Gateway.objects.using(READER).order_by("name")
        if not left:
            found = found.filter(left_at=None)
        return _rows(list(found))


def gateway(name: str) -> GatewayRow:
    """One gateway, left or not. Raises Refused (not_found)."""
    with snapshot():
        found = _rows(list(Gateway.objects.using(READER).filter(name=name)))
    if not found:
        raise Refused(f"no gateway is named {name}", code="not_found")
    return found[0]


def speaker(name: str, *, now: float) -> str:
    """Who joined this gateway, while it is there and heard from; else "": whoever joins next may have the name."""
    found = Gateway.objects.using(READER).filter(name=name, left_at=None).first()
    return found.joined_by if found is not None and now - found.seen_at <= found.lease_seconds else ""


def open_rooms(instance: str) -> tuple[OpenRoomsRow, ...]:
    rows = OpenRooms.objects.using(READER).filter(instance=instance).order_by("group", "kind", "source")
    return tuple(
        OpenRoomsRow(
            str(row.kind),
            row.source,
            row.instance,
            None if row.group == ALL_GROUPS else row.group,
            row.launch_token,
            row.open_rooms,
            row.taken_at,
            row.received_at,
        )
        for row in rows
    )


def outcomes(*, since_minute: int, gateway: str = "", limit: int = OUTCOME_ROWS) -> tuple[OutcomeRow, ...]:
    """Counts since a minute (epoch seconds / 60), the newest first."""
    found = OutcomeCount.objects.using(TRAFFIC).filter(minute__gte=since_minute)
    if gateway:
        found = found.filter(gateway=gateway)
    names = ("minute", "gateway", "prefill", "decode", "outcome")
    ordered = found.order_by("-minute", *names[1:]).values_list(*names, "count")
    return tuple(OutcomeRow(*values) for values in ordered[:limit])


def _rows(found: list[Gateway]) -> tuple[GatewayRow, ...]:
    now = head()
    shut: Counter[str] = Counter(
        Breaker.objects.using(READER)
        .filter(gateway__in=[row.name for row in found])
        .exclude(state=Breaker.State.CLOSED)
        .values_list("gateway", flat=True)
    )
    return tuple(
        GatewayRow(
            row.name,
            row.url,
            row.registered_at,
            row.seen_at,
            row.lease_seconds,
            row.acknowledged_ledger,
            row.acknowledged_revision,
            row.left_at,
            now.revision - row.acknowledged_revision if row.acknowledged_ledger == now.ledger_id else None,
            shut[row.name],
        )
        for row in found
    )
