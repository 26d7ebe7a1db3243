"""What a decode tells of its rooms, and of which prefill: also when that could not be asked."""

import pytest

from controlplane.domain.reports import OUTCOME
from controlplane.domain.topology import Slot, Topology
from workers.agent import telling
from workers.agent.telling import UNRESOLVED, Telling
from workers.sdk import Disagreement, NotFound, NotReady, Place, Resolved, Target, TimedOut, Unreachable, WorkerError
from workers.sdk.resolved import RankTargets

HERE, THERE = Place("10.0.0.5", 8998), Place("10.0.0.6", 8998)


class Client:
    """Keeps what is noted, or refuses it."""

    def __init__(self) -> None:
        self.noted: list[tuple] = []
        self.refuses = False

    def note(self, room, instance, rung, result="passed", *, detail="", took=None) -> None:
        if self.refuses:
            raise WorkerError("no")
        self.noted.append((room, instance, rung, result, detail, took))


def prefill(instance: str | None = "prefill-a", *, at: Place = HERE) -> Resolved:
    target = Target(Slot(0, 0, 0, 0), "10.0.1.7", 41000)
    ranks = (RankTargets(0, 0, None, {0: (target,)}),)  # type: ignore[arg-type]
    return Resolved(at, instance, Topology(1, 1, 1, 1), True, ranks, "identity")


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def tells(client) -> Telling:
    return Telling(client)  # type: ignore[arg-type]


def test_a_prefill_is_named_by_its_instance_and_where_nobody_tells_one_by_the_address_of_a_rank(client, tells):
    tells.note(7, prefill(), "connected", detail="two ranks")
    tells.note(8, prefill(None), "verified", "damaged")
    assert client.noted == [
        (7, "prefill-a", "connected", "passed", "two ranks", None),
        (8, "10.0.1.7:41000", "verified", "damaged", "", None),
    ]


def test_a_room_that_could_not_be_resolved_is_told_of_whoever_the_request_named_or_was_there_before(client, tells):
    problem = Unreachable("10.0.0.5:8998", "the connection was refused")
    named = Place("10.0.0.5", 8998, instance="prefill-b")
    tells.could_not_resolve(1, HERE, problem, took=2.0)
    tells.resolved(HERE, prefill())
    tells.resolved(THERE, prefill(None, at=THERE))
    for room, place in enumerate((HERE, THERE, named), 2):
        tells.could_not_resolve(room, place, problem, took=2.0)
    tells.could_not_resolve(9, None, problem, took=2.0)
    assert [noted[1] for noted in client.noted] == ["10.0.0.5:8998", "prefill-a", "10.0.1.7:41000", "prefill-b"]
    assert {noted[2:] for noted in client.noted} == {("resolved", "unreachable", problem.sentence, 2.0)}


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (TimedOut("a:1", "nothing came"), "unreachable"),
        (NotReady("a:1", 503, "0 of 2"), "not_ready"),
        (NotFound("a:1", 404, "nobody"), "not_found"),
        (Disagreement("a:1", 409, "page_size"), "incompatible"),
        (WorkerError("whatever"), "failed"),
    ],
)
def test_why_it_could_not_is_one_word(client, tells, problem, word):
    tells.could_not_resolve(1, HERE, problem, took=0.1)
    assert client.noted[0][3] == word and all(OUTCOME.fullmatch(said) for _, said in UNRESOLVED)


def test_nothing_of_it_ever_fails_a_request_and_names_are_bounded(client, tells, monkeypatch):
    monkeypatch.setattr(telling, "MOST_NAMES", 2)
    client.refuses = True
    tells.note(7, prefill(), "connected")
    tells.could_not_resolve(1, HERE, WorkerError("no"), took=0.1)
    for port in range(1, 5):
        tells.resolved(Place("h", port), prefill())
    assert [place.port for place in tells._names] == [3, 4]
