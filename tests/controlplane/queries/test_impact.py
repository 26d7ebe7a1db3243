"""What several targets mean together, and which rooms live on them."""

import time

from controlplane.databases import TRAFFIC
from controlplane.domain.topology import Topology
from controlplane.models import Instance, RoomBinding
from controlplane.queries import impact, routable
from controlplane.queries.impact import Alive

from .world import World


def fleet() -> float:
    """Three prefill instances of two DP groups, all answering, and one decode that nobody registered."""
    for number, name in enumerate(("a", "b", "c")):
        World(name).launch(Topology(2, 1, 2, 1), first_port=9000 + 100 * number)
    Instance.objects.create(name="d", role="decode", created_at=time.time())
    return time.time()


def test_all_of_the_targets_are_out_at_once(on_backend):
    now = fleet()
    found = impact.together([("a", -1), ("b", 1), ("b", 0)], now=now)
    (prefill,) = found.roles
    assert (prefill.role, prefill.now.instances, prefill.after.instances) == ("prefill", 3, 1)
    assert (prefill.now.groups, prefill.after.groups) == (6, 2)
    assert found.pairs_after == found.pairs_now // 3
    # Of one target it says what the plan of one says.
    before, after = routable.both(now=now, without=("b", 1))
    one = impact.together([("b", 1)], now=now).roles[0]
    assert (one.now, one.after) == (routable.count(before, "prefill"), routable.count(after, "prefill"))


def test_living_bindings_are_counted_by_instance_and_dp_group(on_backend):
    now = fleet()
    ids = dict(Instance.objects.values_list("name", "pk"))
    rows = [("a", 0, 60), ("a", 1, 60), ("a", 1, 60), ("a", 1, -1), ("b", 0, 60)]
    for room, (name, dp, left) in enumerate(rows):
        made = {"instance_id": ids[name], "room": room, "dp": dp, "expires_ms": round((now + left) * 1000)}
        RoomBinding.objects.using(TRAFFIC).create(**made)
    assert impact.alive([("a", -1)], now=now) == Alive(3, True)
    assert impact.alive([("a", 1)], now=now) == Alive(2, True)
    assert impact.alive([("a", 1), ("b", -1)], now=now) == Alive(3, True)
    assert impact.alive([("nobody", -1)], now=now) == Alive(0, True)


def test_a_long_journal_is_not_read_to_its_end_and_says_so(on_backend, monkeypatch):
    monkeypatch.setattr(impact, "LOOKED_AT", 2)
    now = fleet()
    own = Instance.objects.get(name="a").pk
    for room in range(5):
        RoomBinding.objects.using(TRAFFIC).create(instance_id=own, room=room, dp=0, expires_ms=round((now + 60) * 1000))
    assert impact.alive([("a", -1)], now=now) == Alive(2, False)
