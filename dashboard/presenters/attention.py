"""Concerns as a page shows them: where the links lead, and which one is said out loud."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from controlplane.domain.alarms import key_of
from controlplane.domain.attention import Concern, Place
from controlplane.queries.alarms import AlarmSeen
from controlplane.queries.attention import Attention

from .states import BAD, state_of


@dataclass(frozen=True, slots=True)
class ConcernView:
    concern: Concern
    tone: str
    kind: str
    url: str
    step_url: str
    alarm: AlarmSeen | None = None


@dataclass(frozen=True, slots=True)
class AttentionView:
    """`worst` is the tone of the first. `more`: how many are not shown, `states` what kinds there are in all."""

    items: tuple[ConcernView, ...]
    total: int
    more: int
    worst: str
    states: tuple[tuple[str, int], ...]


def attention_view(found: Attention) -> AttentionView:
    """At most one pill in a view is solid: that of the worst."""
    items = tuple(
        _view(one, found.alarms.get(key_of(one)), first=place == 0) for place, one in enumerate(found.concerns)
    )
    states = sorted(found.states.items(), key=lambda pair: -pair[1])
    return AttentionView(
        items,
        found.total,
        found.total - len(items),
        items[0].tone if items else "ok",
        tuple((state_of(word).word, count) for word, count in states),
    )


def _view(one: Concern, alarm: AlarmSeen | None, *, first: bool) -> ConcernView:
    tone = state_of(one.state).tone
    return ConcernView(one, tone, "solid" if first and tone == BAD else "", url_of(one.at), url_of(one.to), alarm)


def instance_url(name: str, **query: str) -> str:
    """
    >>> instance_url("prefill-a"), instance_url("a b", tab="launches")
    ('/instances/prefill-a/', '/instances/a%20b/?tab=launches')
    """
    return f"/instances/{quote(name, safe='')}/{_query(**query)}"


def url_of(place: Place) -> str:
    return WAYS[place.kind](place.key)


def _query(**words: str) -> str:
    return f"?{urlencode(words)}" if words else ""


def _pair(key: str) -> str:
    prefill, _, decode = key.partition("/")
    return f"/pairs/{_query(prefill=prefill, decode=decode)}"


WAYS: Mapping[str, Callable[[str], str]] = {
    "instance": instance_url,
    "launches": lambda name: instance_url(name, tab="launches"),
    "drain": lambda id_: f"/drains/{id_}/",
    "gateway": lambda name: f"/gateways/{quote(name, safe='')}/",
    "gateways": lambda _: "/gateways/",
    "router": lambda name: f"/routers/{quote(name, safe='')}/",
    "pair": _pair,
    "weights": lambda name: f"/weights/{quote(name, safe='')}/",
    "clockwork": lambda _: "/clockwork/",
    "events": lambda _: "/events/",
    "refusals": lambda name: f"/events/{_query(instance=name, kind='registration.refused')}",
    "attention": lambda _: f"/{_query(attention='all')}",
    "role": lambda role: f"/{_query(q=f'role:{role}')}",
}

PLACES: Sequence[str] = tuple(WAYS)
