"""What is known of engines' own HTTP servers: as pages and the API show it, and as the prober goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec
from django.conf import settings
from django.db.models import Q

from controlplane.databases import READER
from controlplane.domain.engine_health import Memory, Rule, State, Why, where
from controlplane.domain.engine_words import sentence
from controlplane.models import EngineHealth, Instance

STALE_SECONDS = 45.0
"""Older than this, nobody renews it: each engine is asked every few seconds, and what is stored is seconds younger."""

ASKED = Instance.objects.using(READER).exclude(intent=Instance.Intent.RETIRED)
ASKED = ASKED.exclude(Q(engine_url="") & (~Q(role=Instance.Role.DECODE) | Q(observed_url="")))
ENCODED = ("said", "load")


@dataclass(frozen=True, slots=True)
class EngineRow:
    """The engine of an instance. `at` is empty where nobody asks; `told` is what it says of itself.

    `withheld_since`: it fails, and that is not held against it.
    `holder`: who holds its bootstrap port, at the address `held`. Times are epoch seconds.
    """

    at: str = ""
    state: str = State.UNKNOWN.value
    why: str = ""
    sentence: str = ""
    since: float | None = None
    asked_at: float | None = None
    answered_at: float | None = None
    proof_at: float | None = None
    status: int | None = None
    took: float | None = None
    error: str = ""
    error_at: float | None = None
    computed_at: float | None = None
    fails: int = 0
    passes: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)
    identified_at: float | None = None
    load: Mapping[str, int] = field(default_factory=dict)
    load_at: float | None = None
    withheld_since: float | None = None
    held: str = ""
    holder: str = ""
    held_at: float | None = None

    @property
    def model(self) -> str:
        return str(self.told.get("model", ""))

    @property
    def version(self) -> str:
        return str(self.told.get("version", ""))

    @property
    def mode(self) -> str:
        return str(self.told.get("mode", ""))

    def is_old(self, now: float) -> bool:
        """Nobody has asked it lately: the verdict stays, and is shown as old."""
        return bool(self.at) and (self.asked_at is None or now - self.asked_at > STALE_SECONDS)

    @property
    def load_told(self) -> Mapping[str, int]:
        """What it held, if it told so about when it was asked last; nothing where it has stopped telling."""
        if self.asked_at is None or self.load_at is None or self.asked_at - self.load_at > STALE_SECONDS:
            return {}
        return self.load

    def signals(self) -> dict[str, bool | None]:
        """What the last probe found, one by one; None for what was not asked."""
        asked = self.asked_at is not None
        failed = bool(self.error_at and self.error_at == self.asked_at)
        answered = self.status is not None
        connected = answered or (failed and self.error.startswith("it accepted"))
        return {
            "connect": connected if asked else None,
            "http": (self.status == 200 and not failed) if asked else None,
            # Its load is asked for where it accepts connections and is not well.
            "progress": self.computed_at == self.asked_at if asked and failed and connected else None,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """An engine that is to be asked: where, under which rule, and what is known of it. `version` 0: nothing is stored; what is
    `stored` may be of another address."""

    id: int
    name: str
    role: str
    url: str
    sealed_key: str = field(repr=False)
    rule: Rule
    every: float
    version: int
    memory: Memory
    stored: Memory


def row_of(instance: Instance, stored: EngineHealth | None) -> EngineRow:
    """As it is shown. What was seen at another address says nothing about this one."""
    at = where(str(instance.role), instance.engine_url, instance.observed_url)
    if stored is None or stored.at != at or not at:
        return EngineRow(at=at, sentence=sentence(Memory(at)) if at else "")
    known = memory_of(stored)
    said = {name: getattr(known, name) for name in SHOWN}
    why = known.why.value if known.why else ""
    return EngineRow(**said, state=known.state.value, why=why, sentence=sentence(known), told=known.said)


def memory_of(stored: EngineHealth) -> Memory:
    said: dict[str, Any] = {name: getattr(stored, name) for name in REMEMBERED}
    said |= {name: _decoded(said[name]) for name in ENCODED}
    return Memory(**{**said, "state": State(stored.state), "why": Why(stored.why) if stored.why in WHYS else None})


WHYS = frozenset(why.value for why in Why)


def _decoded(text: str) -> dict[str, Any]:
    """What was written by another version of ours, or by hand, must not keep a whole fleet from being read."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}


def columns_of(memory: Memory) -> dict[str, Any]:
    """The way back."""
    said = {name: getattr(memory, name) for name in REMEMBERED}
    said |= {name: msgspec.json.encode(dict(said[name])).decode() for name in ENCODED}
    return {**said, "state": memory.state.value, "why": memory.why.value if memory.why else ""}


def stored(instance: int | None = None) -> dict[int, EngineHealth]:
    """What is stored, by the instance's id; of one alone, or of all."""
    found = EngineHealth.objects.using(READER).all()
    return {row.instance_id: row for row in (found if instance is None else found.filter(instance_id=instance))}


def asked() -> tuple[list[Asked], list[tuple[str, EngineHealth]]]:
    """Every engine that is to be asked, and what is known of it; then what is stored of those that are asked no more, with
    their names. Two queries, and a third where there are such. Where nobody is to be asked at all, of nobody is anything
    known: a verdict that nobody can renew must not keep work away for ever."""
    instances = list(ASKED.all()) if settings.PDCP_HEALTH_INTERVAL_SECONDS else []
    known = stored()
    found = [_asked(instance, known.pop(instance.pk, None)) for instance in instances]
    left = [pk for pk, row in known.items() if row.state != State.UNKNOWN]
    names = Instance.objects.using(READER).filter(pk__in=left).values_list("pk", "name") if left else ()
    return found, [(name, known[pk]) for pk, name in names]


def _asked(instance: Instance, known: EngineHealth | None) -> Asked:
    url = where(str(instance.role), instance.engine_url, instance.observed_url)
    rule = Rule(
        instance.fail_after or settings.PDCP_HEALTH_FAIL_AFTER,
        instance.pass_after or settings.PDCP_HEALTH_PASS_AFTER,
        settings.PDCP_HEALTH_LOST_SECONDS,
    )
    kept = memory_of(known) if known is not None else Memory(url)
    return Asked(
        instance.pk,
        instance.name,
        str(instance.role),
        url,
        instance.engine_key if instance.engine_url else "",
        rule,
        instance.probe_seconds or settings.PDCP_HEALTH_INTERVAL_SECONDS,
        known.version if known is not None else 0,
        kept if kept.at == url else Memory(url),
        kept,
    )


REMEMBERED = tuple(one.name for one in fields(Memory))
SHOWN = tuple({one.name for one in fields(Memory)} & {one.name for one in fields(EngineRow)} - {"state", "why"})
