"""The lines of the palette: what was found, where one may go, what one may do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from controlplane.queries.finding import MOST as MOST_INSTANCES
from controlplane.queries.finding import MOST_BESIDE, DrainFound, Finds, InstanceFound
from controlplane.queries.hosts import HostRow
from controlplane.queries.wording import slot_key

from .turns import short_slot

MOST = 14
ACTED_ON = 2
"""Of how many instances the actions are offered."""


@dataclass(frozen=True, slots=True)
class Verb:
    """Something to do to an instance. `instead`: the intents in which this one makes sense; empty: always."""

    name: str
    label: str
    icon: str
    intents: tuple[str, ...] = ()


VERBS = (
    Verb("drain", "Drain", "drain", ("enabled", "cordoned")),
    Verb("cordon", "Cordon", "cordon", ("enabled",)),
    Verb("uncordon", "Uncordon", "play", ("cordoned", "draining")),
    Verb("cancel-drain", "Cancel drain of", "undo", ("draining",)),
    Verb("reregister", "Re-register", "swap"),
    Verb("evict", "Evict", "x"),
    Verb("retire", "Retire", "retired", ("enabled", "cordoned", "draining")),
)


@dataclass(frozen=True, slots=True)
class Line:
    """`state`: a state's word beside it. `act`: the link opens a dialog. `does`: what the page does by itself."""

    title: str
    icon: str
    kind: str
    url: str = ""
    state: str = ""
    note: str = ""
    key: str = ""
    act: bool = False
    does: str = ""


@dataclass(frozen=True, slots=True)
class Going:
    """A page of the navigation, and the keys that lead there."""

    name: str
    icon: str
    url: str
    letter: str


SWITCHES = (
    Line("Pause or go on with live updates", "pause", "page", key="p", does="pause"),
    Line("Change the theme: auto, light, dark", "theme", "page", does="theme"),
    Line("Switch between UTC and local time", "clock", "page", does="zone"),
    Line("Keys of this page", "info", "page", key="?", does="keys"),
)


def lines(text: str, finds: Finds, goings: tuple[Going, ...], *, operates: bool) -> list[Line]:
    """At most 14, what fits best first."""
    return list(_cut(_all(text.strip(), finds, goings, operates)))


def _cut(found: Iterator[Line]) -> Iterator[Line]:
    for place, line in enumerate(found):
        if place == MOST:
            return
        yield line


def _all(text: str, finds: Finds, goings: tuple[Going, ...], operates: bool) -> Iterator[Line]:
    verb, _ = verb_of(text)
    words = text.casefold()
    if finds.number is not None:
        yield from _numbered(finds, finds.number)
    if verb is not None and operates:
        yield from (_act(verb, one) for one in finds.instances if not verb.intents or one.intent in verb.intents)
    places = [Line(g.name, g.icon, "page", g.url, key=f"g {g.letter}") for g in goings]
    if not words:
        yield from places
    yield from (_instance(one) for one in finds.instances)
    if len(finds.instances) == MOST_INSTANCES:
        yield _all_with(verb_of(text)[1])
    yield from (_drain(one) for one in finds.drains if one.id != finds.number)
    for rank in finds.ranks:
        page = f"/instances/{quote(rank.instance, safe='')}/?rank={slot_key(rank.slot)}"
        yield Line(f"{rank.address} {rank.instance} {short_slot(rank.slot)}", "rooms", "rank", page, rank.launch)
    yield from (_host(one) for one in finds.hosts[:MOST_BESIDE])
    if len(finds.hosts) > 1:
        yield _all_with(text)
    for chooser in finds.choosers:
        page = f"/{chooser.kind}s/{quote(chooser.name, safe='')}/"
        yield Line(chooser.name, "gw", chooser.kind, page, note=chooser.url)
    if words:
        yield from (line for line in places if words in line.title.casefold())
        if operates and verb is None:
            yield from _actions(finds.instances[:ACTED_ON])
        for one in finds.instances[:ACTED_ON]:
            asked = {"q": f"instance:{one.name}"}
            yield Line(f"Events of {one.name}", "events", "filter", f"/events/?{urlencode(asked)}", note=asked["q"])
        if len(words) > 2 and finds.number is None and verb is None:
            yield Line(f"Events that say “{text}”", "search", "filter", f"/events/?{urlencode({'q': text})}")
    yield from (line for line in SWITCHES if words in line.title.casefold())


def verb_of(text: str) -> tuple[Verb | None, str]:
    """What is to be done, and to whom, when somebody types an action.

    >>> verb, rest = verb_of("drain prefill-b")
    >>> verb.name, rest, verb_of("prefill-b")[0]
    ('drain', 'prefill-b', None)
    """
    first, _, rest = text.strip().partition(" ")
    known = {verb.name: verb for verb in VERBS}
    verb = known.get(first.casefold())
    return (verb, rest.strip()) if verb is not None else (None, text.strip())


def _numbered(finds: Finds, number: int) -> Iterator[Line]:
    for one in finds.drains:
        if one.id == number:
            yield _drain(one)
    yield Line(f"Room {number}", "rooms", "room", f"/rooms/{number}/", note="who it is bound to")
    if 0 < number <= finds.revision:
        yield Line(f"Event {number}", "events", "event", f"/events/{number}/")
        yield Line(f"Fleet as of {number}", "clock", "as of", f"/events/fleet/?as_of={number}")


def _instance(one: InstanceFound) -> Line:
    return Line(one.name, "right", f"{one.role} instance", f"/instances/{quote(one.name, safe='')}/", one.intent)


def _all_with(text: str) -> Line:
    """More of them may fit than are shown here."""
    return Line(f"All instances with “{text}”", "search", "filter", f"/?{urlencode({'q': text})}")


def _host(one: HostRow) -> Line:
    """
    >>> _host(HostRow("prefill-a", "10.0.0.1", 3, 1)).note
    '3 ranks here, 1 left'
    """
    said = [f"{one.here:,} rank{'' if one.here == 1 else 's'} here"] if one.here else []
    said += [f"{one.left:,} left"] if one.left else []
    page = f"/instances/{quote(one.instance, safe='')}/"
    return Line(f"{one.host} {one.instance}", "rooms", "host", page, note=", ".join(said))


def _drain(one: DrainFound) -> Line:
    what = one.instance if one.group is None else f"{one.instance} dp{one.group}"
    return Line(
        f"Drain {one.id} of {what}", "drain", "drain" if one.open else "ended drain", f"/drains/{one.id}/", one.progress
    )


def _actions(instances: tuple[InstanceFound, ...]) -> Iterator[Line]:
    for one in instances:
        yield from (_act(verb, one) for verb in VERBS if one.intent in verb.intents)


def _act(verb: Verb, one: InstanceFound) -> Line:
    url = f"/act/{verb.name}?{urlencode({'on': one.name})}"
    return Line(f"{verb.label} {one.name}…", verb.icon, "action", url, note="asks first", act=True)
