"""What the ledger tells of launches, outages and drains comes to one duration each, when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controlplane.domain import durations
from controlplane.domain.durations import DRAIN, READY, STEPS, UNHEALTHY, Durations, Took
from controlplane.domain.fleetstate import KNOWN


@dataclass(frozen=True)
class Event:
    kind: str
    at: float
    instance: str = "p"
    data: dict[str, Any] = field(default_factory=dict)


def told(*events: Event, begun: Durations | None = None) -> list[Took]:
    return (begun or Durations()).follow(events)


def launch(kind: str, at: float, number: int, **more: Any) -> Event:
    return Event(f"launch.{kind}", at, data={"launch": number, **more})


def promoted(at: float, number: int, *, replaced: int | None, complete: bool) -> Event:
    return launch("promoted", at, number, replaced=replaced, complete=complete)


def test_a_launch_is_ready_when_it_is_complete_for_the_first_time():
    assert told(launch("opened", 100, 1), launch("completed", 130, 1), launch("completed", 500, 1)) == [Took(READY, 30)]


def test_a_launch_that_was_dropped_or_replaced_before_it_was_whole_was_never_ready():
    assert told(launch("opened", 100, 1), launch("dropped", 110, 1), launch("completed", 120, 1)) == []
    replaced = promoted(130, 2, replaced=1, complete=True)
    assert told(launch("opened", 100, 1), launch("opened", 110, 2), replaced, launch("completed", 140, 1)) == [
        Took(READY, 20)
    ]


def test_a_launch_that_is_promoted_before_it_is_whole_goes_on_filling():
    early = promoted(110, 1, replaced=None, complete=False)
    assert told(launch("opened", 100, 1), early, launch("completed", 160, 1)) == [Took(READY, 60)]


def test_an_outage_ends_when_health_is_200_again_and_not_when_the_instance_is_gone():
    down, up = {"status": 503}, {"status": 200}
    assert told(
        Event("health.turned", 100, data=down),
        Event("health.turned", 105, data=down),
        Event("health.turned", 130, "q", data=up),
        Event("health.turned", 140, data=up),
    ) == [Took(UNHEALTHY, 40)]
    assert (
        told(
            Event("health.turned", 100, data=down), Event("instance.retired", 110), Event("health.turned", 120, data=up)
        )
        == []
    )


def test_a_drain_is_told_once_by_how_it_came_to_its_end():
    begun = [Event("drain.started", 100, data={"drain": n}) for n in (1, 2)]
    ways = [
        Event("drain.progressed", 120, data={"drain": 1, "after": "empty"}),
        Event("drain.progressed", 130, data={"drain": 1, "after": "drained"}),
        Event("drain.ended", 900, data={"drain": 1, "result": "drained"}),
        Event("drain.ended", 150, data={"drain": 2, "result": "forced"}),
    ]
    assert told(*begun, *ways) == [Took(DRAIN, 30, "drained"), Took(DRAIN, 50, "forced")]


def test_what_was_under_way_before_counts_from_its_own_beginning():
    begun = Durations()
    begun.begin(READY, "p", 4, at=50.0)
    begun.begin(READY, "p", 4, at=70.0)
    assert told(launch("completed", 100, 4), begun=begun) == [Took(READY, 50)]


def test_of_too_many_at_once_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(durations, "MOST_OPEN", 2)
    assert told(*(launch("opened", n, n) for n in (1, 2, 3)), *(launch("completed", 10, n) for n in (1, 2, 3))) == [
        Took(READY, 8),
        Took(READY, 7),
    ]


def test_it_follows_only_events_that_there_are():
    assert STEPS.keys() <= KNOWN
