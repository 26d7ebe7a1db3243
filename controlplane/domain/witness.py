"""Whether a DP rank is empty, by those who can know: its engine, its workers, the gateways in front of it.

A proof is two readings of zero in a row, both taken after everybody had stopped admitting. A reading that is missing,
old, unknown or not zero begins the count anew. Nobody who knows is unknown, and unknown blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .admission import SET_BACK_SECONDS, Blockers

ENGINE, WORKER, GATEWAY = "engine", "worker", "gateway"
# What a gateway left open when it left: only an engine or a worker can say what became of that.
LEFT = "former gateway"

READINGS = 2
APART_SECONDS = 0.5
"""Two looks at one moment are one reading: a request on its way from one queue to the next is in neither."""

NAMED = 8

NEEDED: Mapping[str, Sequence[str]] = {
    "prefill": ("running", "waiting", "bootstrap", "inflight"),
    "decode": ("running", "waiting", "prealloc", "transfer", "retracted"),
    "seed": ("running", "waiting"),
}
"""What an engine of each role must say before its silence about the rest counts as nothing."""


def open_requests(role: str, counts: Mapping[str, int]) -> int | None:
    """How much an engine holds by its own counts, which overlap; None when one that matters is missing.

    >>> open_requests("prefill", {"running": 0, "waiting": 0}) is None
    True
    """
    if any(name not in counts for name in NEEDED[role]):
        return None
    return max(counts.values())


Who = tuple[str, str]
"""A witness: its kind, and its name where there may be several."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one witness said of one DP rank (`dp` None: of the whole instance), as of `taken_at` by our clock.

    `mark` tells one reading from the next. `open` is None when it spoke without saying this; `counts` is the detail.
    """

    kind: str
    source: str
    dp: int | None
    taken_at: float
    mark: str
    open: int | None
    counts: Mapping[str, int] = field(default_factory=dict)
    lease_seconds: float = 15.0

    def is_old(self, now: float) -> bool:
        return now - self.taken_at > self.lease_seconds


@dataclass(frozen=True, slots=True)
class Zero:
    """How many readings of zero one witness gave in a row, and the last that counted."""

    count: int
    mark: str
    taken_at: float

    def data(self) -> dict[str, Any]:
        return {"count": self.count, "mark": self.mark, "taken_at": self.taken_at}


Zeros = dict[str, Zero]
"""By witness and DP rank."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is there to be asked: an engine whose URL is known; gateways by name.

    `others_send`: a router does, too, so that what gateways count is not everything. `exact`: what was said of the whole
    instance says nothing of the rank in question.
    """

    engine: bool = False
    gateways: Sequence[str] = ()
    others_send: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """What one witness's last word on a DP rank amounts to.

    `word`: busy, zero; silent (nothing fresh), vague (not how much); nobody, when there is no witness to be asked.
    """

    dp: int
    who: Who
    word: str
    reading: Reading | None

    @property
    def name(self) -> str:
        return "" if self.word == "nobody" else _called(self.who)

    @property
    def key(self) -> str:
        """Of `Zeros`."""
        return f"{self.name} dp{self.dp}"


@dataclass(frozen=True, slots=True)
class Heard:
    """`busy` is proof of work; `unknown` is the lack of proof, `pending` a proof that needs another reading."""

    busy: Blockers
    unknown: Blockers
    pending: Blockers
    zeros: Zeros

    @property
    def empty(self) -> bool:
        return not self.busy and not self.unknown


def hear(said: Sequence[Statement], *, since: float | None, zeros: Zeros) -> Heard:
    """Put together what was said. `since`: when everybody had stopped admitting; None while somebody has not."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    counted: Zeros = {}
    for one in said:
        word = one.word
        if word == "zero":
            assert one.reading is not None
            zero = _count(zeros.get(one.key), one.reading, since)
            if zero is not None:
                counted[one.key] = zero
            word = "proof" if zero is None or zero.count < READINGS else ""
        if word:
            found[word, one.name].append(one.dp)
    return Heard(
        _blockers(found, "busy"),
        _blockers(found, "silent") | _blockers(found, "vague") | _blockers(found, "nobody"),
        _blockers(found, "proof"),
        counted,
    )


def statements(dps: Collection[int], readings: Iterable[Reading], watch: Watch, *, now: float) -> tuple[Statement, ...]:
    """Every DP rank of `dps` with everybody who must speak of it, and whoever else says that something is open there."""
    by_rank = _by_rank(readings)
    found: list[Statement] = []
    for dp in sorted(dps):
        said = _said_of(dp, by_rank, exact=watch.exact)
        asked = _asked(said, watch)
        if not asked:
            found.append(Statement(dp, ("", ""), "nobody", None))
        found += [Statement(dp, who, _word(said.get(who), now), said.get(who)) for who in asked]
        whole = {} if watch.exact else by_rank.get(None, {})
        found += [
            Statement(dp, who, "busy", _busier(who, said, whole)) for who in _busy_beside(said, asked, whole, now)
        ]
    return tuple(found)


def open_in_all(said: Iterable[Statement]) -> int | None:
    """How much is open by all of them together; None when one who must say it does not.

    Gateways count requests of their own, workers of one DP rank the same ones; of two kinds the one that knows of more.
    """
    most: dict[tuple[str, str, int | None], int] = {}
    for one in said:
        if one.reading is None or one.reading.open is None or one.word in ("silent", "vague"):
            return None
        kind, source = one.who
        key = (kind, source if kind == GATEWAY else "", one.reading.dp)
        most[key] = max(most.get(key, 0), one.reading.open)
    kinds: dict[str, int] = defaultdict(int)
    for (kind, _, _), count in most.items():
        kinds[kind] += count
    return max(kinds.values(), default=None)


def _by_rank(readings: Iterable[Reading]) -> dict[int | None, dict[Who, Reading]]:
    found: dict[int | None, dict[Who, Reading]] = defaultdict(dict)
    for reading in readings:
        found[reading.dp][reading.kind, reading.source] = reading
    return found


def _said_of(dp: int, by_rank: Mapping[int | None, dict[Who, Reading]], *, exact: bool) -> dict[Who, Reading]:
    """Words about this rank; those about the whole instance where nothing more exact was said."""
    whole = {} if exact else by_rank.get(None, {})
    return {**whole, **by_rank.get(dp, {})}


def _busy_beside(
    said: Mapping[Who, Reading], asked: Collection[Who], whole: Mapping[Who, Reading], now: float
) -> Iterable[Who]:
    """Whoever was not needed is still believed when it says that something is open; and who was, when what it says of
    the whole instance is more than what it says of the rank."""
    for who, reading in said.items():
        if who not in asked:
            # A worker that has died takes nothing back. A gateway that is silent blocks anyhow, until it is removed.
            if reading.open and not (who[0] in (WORKER, LEFT) and reading.is_old(now)):
                yield who
        elif not reading.open and who in whole and whole[who].open and not whole[who].is_old(now):
            yield who


def _word(reading: Reading | None, now: float) -> str:
    if reading is None or reading.is_old(now):
        return "silent"
    if reading.open is None:
        return "vague"
    return "busy" if reading.open else "zero"


def _busier(who: Who, said: Mapping[Who, Reading], whole: Mapping[Who, Reading]) -> Reading:
    return said[who] if said[who].open else whole[who]


def _asked(said: Mapping[Who, Reading], watch: Watch) -> list[Who]:
    """Who must prove that a rank is empty: its engine, else every worker that speaks of it, else all gateways."""
    if watch.engine:
        return [(ENGINE, "")]
    workers = [who for who in said if who[0] in (WORKER, LEFT)]
    if workers:
        return workers
    if watch.others_send:
        return []
    return [(GATEWAY, name) for name in watch.gateways]


def _count(before: Zero | None, reading: Reading, since: float | None) -> Zero | None:
    if since is None or reading.taken_at <= since:
        return None
    if before is None or not since < before.taken_at <= reading.taken_at + SET_BACK_SECONDS:
        return Zero(1, reading.mark, reading.taken_at)
    if reading.mark == before.mark or reading.taken_at - before.taken_at < APART_SECONDS:
        return before
    return Zero(min(before.count + 1, READINGS), reading.mark, reading.taken_at)


def _called(who: Who) -> str:
    kind, source = who
    return "the engine" if kind == ENGINE else f"{kind} {source}"


SENTENCES = {
    "busy": "{who} still has requests on {ranks}",
    "silent": "{who} does not say how much is open on {ranks}: no answer that is fresh",
    "vague": "{who} answers, but not how much is open on {ranks}",
    "nobody": (
        "nobody can say whether {ranks} is empty: give the URL of the instance's engine, or have a worker or a gateway"
        " report open rooms"
    ),
    "proof": "{who} must say twice in a row that nothing is open on {ranks}, after everybody has stopped admitting",
}


def _blockers(found: Mapping[tuple[str, str], list[int]], what: str) -> Blockers:
    said: Blockers = {}
    for (kind, who), dps in found.items():
        if kind == what:
            ranks = ", ".join(f"dp{dp}" for dp in dps[:NAMED])
            ranks += f" and {len(dps) - NAMED} more" if len(dps) > NAMED else ""
            said[f"{what} {who} {','.join(map(str, dps))}"] = SENTENCES[what].format(who=who, ranks=ranks)
    return said
