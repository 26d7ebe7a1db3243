"""The fleet in eight numbers, each with what it is of, a word beside it and the page that lists it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.queries.attention import Scene
from controlplane.queries.series import SeriesRows
from controlplane.queries.totals import Totals

from .charts import latest
from .numbers import amount

SERIES = ("lookups", "rooms", "bindings", "probe_p99_ms")


@dataclass(frozen=True, slots=True)
class Counter:
    """`of`: the total that the value is a part of. `points`: how it went, for a small chart."""

    label: str
    value: str
    sub: str
    url: str
    of: str = ""
    points: Sequence[float | None] = ()


def counters(totals: Totals, scene: Scene, samples: SeriesRows, *, now: float) -> tuple[Counter, ...]:
    return (
        Counter("Ranks routable", f"{totals.routable:,}", _ranks(totals), "/?sort=ready", f"{totals.ranks:,}"),
        Counter("DP groups serving", f"{totals.serving:,}", _groups(totals), "/?sort=ready", f"{totals.groups:,}"),
        Counter("Pairs usable", f"{scene.pairing.usable:,}", _pairs(scene), "/pairs/", f"{scene.pairing.total:,}"),
        _gateways(scene, now),
        _filling(totals),
        _sampled("Look-ups / s", "lookups", samples, "last 15 min"),
        _sampled("Rooms alive", "rooms", samples, f"{_last('bindings', samples)} bound / s"),
        _probes(samples, totals),
    )


def _ranks(totals: Totals) -> str:
    said = [f"{totals.in_trouble:,} in trouble"] if totals.in_trouble else []
    said += [f"{totals.wanted_away:,} by intent"] if totals.wanted_away else []
    said += (
        [f"{totals.unsized:,} decode{'s' * (totals.unsized != 1)} of unknown size"]
        if totals.unsized and not said
        else []
    )
    return " · ".join(said) or "all of them"


def _groups(totals: Totals) -> str:
    missing = totals.groups - totals.serving
    return f"{missing:,} {'does' if missing == 1 else 'do'} not serve" if missing else "all of them"


def _pairs(scene: Scene) -> str:
    return f"{scene.pairing.cannot:,} cannot pair" if scene.pairing.cannot else "none is known not to fit"


def _gateways(scene: Scene, now: float) -> Counter:
    """Who chooses workers and can be relied on to have heard: gateways that follow, routers in step."""
    silent = [one.name for one in scene.gateways if one.silent(now)]
    away = [one.name for one in scene.routers if one.state == "away"]
    behind = [one.name for one in scene.gateways if not one.silent(now) and one.behind != 0]
    reached = [one for one in scene.routers if one.state != "away"]
    apart = [one.name for one in reached if one.problem]
    unasked = [one.name for one in reached if not one.problem and one.checked_at is None]
    total = len(scene.gateways) + len(scene.routers)
    words = (
        (silent, "silent"),
        (away, "away"),
        (apart, "not in step"),
        (behind, "behind"),
        (unasked, "not asked yet"),
    )
    said = next(
        (f"{names[0]} {word}" if len(names) == 1 else f"{len(names)} {word}" for names, word in words if names), ""
    )
    current = total - sum(len(names) for names, _ in words)
    nobody = "none has joined"
    return Counter(
        "Gateways current", str(current), said or ("all follow" if total else nobody), "/gateways/", str(total)
    )


def _filling(totals: Totals) -> Counter:
    found = totals.filling
    first = f"{found[0].instance} {found[0].number}: {found[0].registered:,}/{found[0].expected:,}" if found else "none"
    return Counter("Launches filling", f"{len(found):,}", first, "/?q=launch:filling")


def _last(name: str, samples: SeriesRows) -> str:
    return amount(latest(samples.values[name]))


def _sampled(label: str, name: str, samples: SeriesRows, sub: str) -> Counter:
    known = samples.sampled_at is not None
    points = samples.values[name] if known else ()
    return Counter(label, _last(name, samples), sub if known else "not sampled yet", "/activity/", points=points)


def _probes(samples: SeriesRows, totals: Totals) -> Counter:
    found = latest(samples.values["probe_p99_ms"])
    value = f"{amount(found)} ms" if found is not None else "–"
    sub = f"{totals.ranks:,} ranks" if found is not None else "nobody was probed lately"
    return Counter("Probe p99", value, sub, "/activity/")
