"""What stands over an instance: its facts, each with its age and, on hover, whose word it is, and its tabs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.queries.closeup import CloseUp
from controlplane.queries.rows import InstanceRow

from .states import BAD, WARN, state_of


@dataclass(frozen=True, slots=True)
class FactCell:
    """`value` and what stands behind it: `sub` in words, then how long it is so (`since`), or until when (`ago`)."""

    name: str
    value: str
    writer: str
    sub: str = ""
    since: float | None = None
    ago: float | None = None
    tone: str = ""
    mono: bool = False


def facts(seen: CloseUp, *, host: str, kv_port: int, now: float) -> list[FactCell]:
    return list(_facts(seen, host, kv_port, now))


def _facts(seen: CloseUp, host: str, kv_port: int, now: float) -> Iterator[FactCell]:
    instance, leader = seen.instance, seen.leader
    launch = instance.current or instance.candidate
    if launch is not None:
        yield FactCell("Topology", str(launch.topology).replace("·", " "), "its ranks, by bootstrap", mono=True)
        said = launch.facts
        cache = f"page_size {said['page_size']}" if said.get("page_size") is not None else "page_size not said"
        yield FactCell("KV cache", cache, "its ranks, by bootstrap", sub=str(said.get("kv_cache_dtype") or ""))
        number = f"{launch.number}" if instance.current is not None else "none"
        since = instance.current.completed_at or instance.current.opened_at if instance.current is not None else None
        yield FactCell("Current launch", number, "bootstrap", since=since)
    else:
        yield FactCell("Current launch", "none", "bootstrap")
    yield FactCell("Bootstrap door", f"{host}:{instance.own_port or kv_port}", "operators", _door(seen), mono=True)
    health = instance.health
    tone = "" if health == 200 else "warn"
    told = instance.debt_since or (instance.current.completed_at if instance.current is not None else None)
    yield FactCell("/health answers", str(health), "bootstrap", since=told, tone=tone)
    yield FactCell("Engine sessions", *_sessions(seen))
    watched = "" if leader.leads(now) else "bad"
    word = "bootstrap" if leader.leads(now) else "nobody"
    yield FactCell("Watched by", word, leader.holder or "bootstrap", ago=leader.stamp or None, tone=watched)
    newest = seen.registered_at
    if newest is None:
        yield FactCell("Last registration", "none", "bootstrap")
    else:
        yield FactCell("Last registration", "", "bootstrap", f"into {newest.launch}", ago=newest.seen_at)
    if seen.workers.count:
        late = seen.workers.late
        word, since = (f"{late} late", seen.workers.late_since) if late else ("", None)
        ago = None if late else seen.workers.heard_at
        tone = WARN if late else ""
        yield FactCell("Heartbeats", f"{seen.workers.count}", "workers", word, since=since, ago=ago, tone=tone)
    yield from _engine(instance, now)
    if instance.is_observed:
        at = instance.observed_url or instance.observed_engine_info_url
        heard = instance.observation
        word, tone = (heard.state, "" if heard.state == "listed" else "warn") if heard else ("not asked yet", "warn")
        answered = heard.answered_at if heard else None
        yield FactCell("Observed at", at, "operators", word, ago=answered, tone=tone, mono=True)


def _engine(instance: InstanceRow, now: float) -> Iterator[FactCell]:
    """Its own HTTP server: where, how it is since when, how old that word is, and who it says it is."""
    engine = instance.engine
    if not engine.at:
        if instance.engine_url:
            yield FactCell("Engine", instance.engine_url, "operators", mono=True)
        return
    yield FactCell("Engine", engine.at, "operators", mono=True)
    look = state_of(engine.state)
    tone = look.tone if look.tone in (WARN, BAD) else ""
    yield FactCell("Engine health", look.word, PROBER, since=engine.since, tone=tone)
    old = engine.is_old(now)
    if engine.asked_at is None:
        yield FactCell("Engine asked", "not yet", PROBER, _short(engine.error))
    else:
        took = f"took {engine.took * 1000:.0f} ms" if engine.took is not None else _short(engine.error)
        yield FactCell(
            "Engine asked", "old" if old else "", PROBER, took, ago=engine.asked_at, tone=WARN if old else ""
        )
    if engine.proof_at is not None and engine.state != "up":
        yield FactCell("Engine well", "last", PROBER, ago=engine.proof_at)
    if engine.identified_at is not None:
        said = " ".join(filter(None, (engine.model or "model not said", engine.version)))
        yield FactCell("Engine says", said, "the engine, by the prober", ago=engine.identified_at)
    if engine.load_at is not None and engine.load:
        held = ", ".join(f"{engine.load[name]} {name}" for name in ("running", "waiting") if name in engine.load)
        yield FactCell("Engine holds", held or "not said", "the engine, by the prober", ago=engine.load_at)


PROBER = "the prober"
MOST_SAID = 80


def _short(error: str) -> str:
    return error if len(error) <= MOST_SAID else f"{error[: MOST_SAID - 1]}…"


def _door(seen: CloseUp) -> str:
    instance = seen.instance
    if instance.own_port:
        return "its own"
    return f"as {instance.host_alias}" if instance.host_alias else "shared"


def _sessions(seen: CloseUp) -> tuple[str, str, str]:
    conflicts = seen.instance.conflicts
    return str(seen.instance.sessions), "seeds, by bootstrap", f"{conflicts} in conflict" if conflicts else ""


@dataclass(frozen=True, slots=True)
class Tab:
    """`count` None: counting would cost more than looking."""

    key: str
    label: str
    count: int | None = None
    tone: str = ""

    @property
    def url(self) -> str:
        return "./" if self.key == "ranks" else f"?tab={self.key}"


def tabs(seen: CloseUp) -> list[Tab]:
    instance = seen.instance
    launches = sum(launch is not None for launch in (instance.current, instance.candidate))
    shown = instance.current or instance.candidate
    sessions = instance.sessions + instance.conflicts
    return [
        Tab("ranks", "Ranks", shown.registered if shown is not None else 0),
        Tab("why", "Why"),
        Tab("launches", "Launches", launches, "warn" if instance.candidate is not None else ""),
        Tab("rooms", "Rooms"),
        Tab("engine-info", "Engine info", sessions, "bad" if instance.conflicts else ""),
        Tab("pairs", "Pairs"),
        Tab("events", "Events"),
    ]
