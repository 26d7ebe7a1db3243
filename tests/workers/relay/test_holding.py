"""What the relay holds, and what is answered from it while the control plane is away: who is whole, who has ended."""

from __future__ import annotations

import json

import pytest

from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.protocol import kv
from tests.wire.client import rank
from workers.relay.holding import MOST_LAUNCHES, MOST_TOKENS, Holding, Seat, identity_of
from workers.relay.records import Dropped, Minted, Put, Taken, Told, line, read

SLOTS = [Slot(0, 0, 0, 0), Slot(0, 0, 1, 0)]


def put(holding: Holding, token: str | None = "a", tp: int = 0, port: int = 41000, at: float = 1.0, **facts) -> Put:
    """A rank of two, at a port of its own, that the control plane has."""
    body = json.dumps(rank(attn_tp_size=2, attn_tp_rank=tp, rank_port=port + tp, **facts))
    process = facts.pop("process", f"{token or 'nobody'}.1.x")
    record = Put(holding.next, body, at, token, process)
    holding.apply(record)
    return record


def both(holding: Holding, token: str | None = "a", port: int = 41000, at: float = 1.0) -> None:
    put(holding, token, 0, port, at)
    put(holding, token, 1, port, at)


def told(holding: Holding, port: int, at: float) -> None:
    """The control plane serves two ranks at these ports."""
    there = Holding("there")
    both(there, None, port)
    topology = kv.topology_answer(there.launches[0].launch).body.decode()
    holding.apply(Told(at, topology, [(*slot, "10.0.1.10", port + slot.tp) for slot in SLOTS]))


def dead(*tokens: str):
    return lambda seat: seat.put.token not in tokens


def unknown(seat: Seat) -> None:
    return None


def ports(launch) -> list[int] | None:
    return None if launch is None else [launch.rows[slot].port for slot in SLOTS]


def test_a_launch_is_served_when_it_is_whole_and_nobody_of_it_has_ended():
    holding = Holding("p")
    put(holding, tp=1)
    assert holding.serving(unknown) is None
    assert holding.directory(None).registered == 1, "as the wire counts those that came"
    put(holding, tp=0)
    assert ports(holding.serving(unknown)) == [41000, 41001]
    assert holding.serving(dead("a")) is None


def test_the_newest_whole_launch_is_served_and_until_then_the_one_before():
    holding = Holding("p")
    both(holding)
    put(holding, "b", 0, 42000)
    assert ports(holding.serving(unknown)) == [41000, 41001]
    put(holding, "b", 1, 42000)
    assert ports(holding.serving(unknown)) == [42000, 42001]
    assert ports(holding.serving(dead("b"))) == [41000, 41001], "pods of one name, the newer of which died"


def test_without_tokens_another_address_in_a_slot_is_another_launch():
    holding = Holding("p")
    both(holding, None)
    put(holding, None, 0, 42000)
    assert len(holding.launches) == 2 and ports(holding.serving(unknown)) == [41000, 41001]
    put(holding, None, 0, 42000)
    put(holding, None, 1, 42000)
    assert ports(holding.serving(unknown)) == [42000, 42001]
    assert [seat.put.n for seat in holding.pending(unknown)] == []
    holding.drop_ended(unknown)
    assert len(holding.launches) == 1, "a whole one after it is as good as seeing it end"


def test_the_control_planes_last_word_counts_for_what_was_registered_before_it_and_not_for_what_came_since():
    holding = Holding("p")
    both(holding, at=1.0)
    told(holding, 45000, at=2.0)
    assert ports(holding.serving(unknown)) == [45000, 45001]
    both(holding, "b", 42000, at=3.0)
    assert ports(holding.serving(unknown)) == [42000, 42001]


def test_what_the_control_plane_said_last_is_not_served_when_its_ranks_are_seen_to_have_ended():
    holding = Holding("p")
    both(holding, at=1.0)
    told(holding, 41000, at=2.0)
    assert ports(holding.serving(unknown)) == [41000, 41001]
    assert holding.serving(dead("a")) is None
    put(holding, "b", 0, 41000, at=1.5)
    assert holding.serving(dead("a")) is None, "one came at its port, and the other has ended"


def test_who_was_not_told_yet_is_told_in_order_without_those_that_ended_or_spoke_again():
    holding = Holding("p")
    for record in (put(holding, "a", 1), put(holding, "b", 0, 42000), put(holding, "b", 1, 42000)):
        record.pending = True
    assert [seat.put.n for seat in holding.pending(unknown)] == [1, 2, 3]
    assert [seat.put.n for seat in holding.pending(dead("a"))] == [2, 3]
    holding.apply(Taken(2))
    holding.apply(Taken(3, "it differs"))
    assert [seat.put.n for seat in holding.pending(unknown)] == [1] and holding.seat(3).refused == "it differs"
    nameless = Holding("p")
    for port in (41000, 42000):
        put(nameless, None, 0, port).pending = True
    assert [seat.said.port for seat in nameless.pending(unknown)] == [42000]


def test_what_contradicts_a_living_rank_of_its_launch_is_refused_and_what_follows_a_dead_one_is_not():
    holding = Holding("p")
    put(holding, tp=1)
    other = kv.read_register(json.dumps(rank(attn_tp_size=2, page_size=1)).encode(), token="a")
    with pytest.raises(Refused, match="page_size differs within one launch: dp0 cp0 tp0 pp0"):
        holding.check(other, lambda seat: True)
    holding.check(other, dead("a"))
    put(holding, tp=0, page_size=1)
    (held,) = holding.launches
    assert (held.launch.facts.page_size, len(held.seats)) == (1, 1), "what stood there has ended"
    smaller = kv.read_register(json.dumps(rank()).encode(), token="a")
    with pytest.raises(Refused, match="the topology differs"):
        put(holding, tp=1, page_size=1)
        holding.check(smaller, lambda seat: True)


def test_an_address_is_one_rank():
    holding = Holding("p")
    put(holding, tp=0)
    body = json.dumps(rank(attn_tp_size=2, attn_tp_rank=1, rank_port=41000))
    holding.apply(Put(9, body, 2.0, "a"))
    (held,) = holding.launches
    assert set(held.seats) == set(held.launch.rows) == {SLOTS[1]}


def test_what_a_decode_may_have_cached_tells_two_launches_apart():
    holding = Holding("p")
    both(holding)
    first = holding.serving(unknown)
    told(holding, 41000, at=9.0)
    assert identity_of(first) == identity_of(holding.told), "the same, whoever tells"
    for facts in ({"page_size": 1}, {"kv_cache_dtype": "bf16"}, {"load_balance_method": "round_robin"}):
        other = Holding("p")
        put(other, tp=0, **facts)
        put(other, tp=1, **facts)
        assert identity_of(other.serving(unknown)) != identity_of(first)


def test_records_in_order_make_it_again():
    holding = Holding("p")
    holding.apply(Minted("run:1", "a"))
    both(holding)
    told(holding, 45000, at=2.0)
    put(holding, "b", 0, 42000).pending = True
    holding.apply(Taken(3, "no"))
    again = Holding("p")
    for record in holding.records():
        found = read(line(record).rstrip())
        assert found == record
        again.apply(found)
    assert list(again.records()) == list(holding.records())
    assert (again.tokens, again.next) == (holding.tokens, holding.next)
    assert ports(again.serving(unknown)) == ports(holding.serving(unknown))


def test_a_launch_is_dropped_when_all_of_it_has_ended_but_never_the_newest():
    holding = Holding("p")
    both(holding)
    assert holding.drop_ended(dead("a")) == []
    put(holding, "b", 0, 42000)
    assert holding.drop_ended(unknown) == []
    assert holding.drop_ended(dead("a")) == [Dropped(2)]
    assert [held.launch.token for held in holding.launches] == ["b"]


def test_launches_and_tokens_are_bounded():
    holding = Holding("p")
    for n in range(20):
        put(holding, f"launch-{n}")
        holding.drop_ended(unknown)
    assert len(holding.launches) <= MOST_LAUNCHES + 1
    for n in range(200):
        holding.apply(Minted(f"run:{n}", str(n)))
    assert len(holding.tokens) == MOST_TOKENS and holding.tokens["run:199"] == "199"
