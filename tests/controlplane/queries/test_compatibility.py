"""Every prefill with every decode, from real tables; what a decode says of itself counts more than what is stored."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import instances
from controlplane.databases import FACTS, READER
from controlplane.domain.decodes import read
from controlplane.domain.disagreement import Effect
from controlplane.domain.errors import Refused
from controlplane.domain.observing import Memory, State, stored
from controlplane.domain.topology import Topology
from controlplane.models import Instance
from controlplane.queries import compatibility
from tests.controlplane.queries.world import World

TP4 = Topology(1, 1, 4, 1)
PAIR_QUERIES = 15


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def serving(name: str, topology: Topology = TP4, role: str = "prefill") -> World:
    world = World(name)
    Instance.objects.using(FACTS).filter(pk=world.row.pk).update(role=role)
    world.launch(topology, first_port=4000)
    return world


def decode(name: str) -> None:
    instances.add(name, role="decode", actor="anna")


def pairs(**how) -> compatibility.PairPage:
    return compatibility.pairs(now=time.time(), **how)


def test_a_decode_that_never_registered_is_said_to_be_unknown_not_compatible():
    serving("p")
    decode("d")
    (pair,) = pairs().rows
    assert (pair.prefill, pair.launch, pair.decode, pair.known_from, pair.verdict) == ("p", 1, "d", "nobody", "unknown")
    assert {finding.effect for finding in pair.compatibility.findings} == {Effect.UNKNOWN}
    assert pair.usable


def test_what_the_engine_of_an_observed_decode_says_speaks_for_it():
    serving("p")
    instances.add("d", role="decode", observed_url="http://10.0.0.9:30000", actor="anna")
    said = {"mode": "decode", "world_tp_size": 4, "tp_size": 4, "page_size": 32}
    heard = Memory("http://10.0.0.9:30000", State.LISTED, said=said)
    Instance.objects.using(FACTS).filter(name="d").update(observation=stored(heard))
    (pair,) = pairs().rows
    assert (pair.known_from, pair.verdict) == ("observed", "incompatible")
    assert pair.compatibility.why_not.sentence == "page_size differs: prefill has 64, decode has 32"


def test_engines_that_serve_different_models_are_an_unproven_pair():
    serving("p")
    instances.add("d", role="decode", actor="anna")
    for name, model in (("p", "/w/qwen3"), ("d", "llama-3")):
        url = f"http://{name}.rack:30000"
        heard = Memory(url, State.LISTED, said={"mode": "null", "model": model})
        Instance.objects.using(FACTS).filter(name=name).update(observed_url=url, observation=stored(heard))
    (pair,) = pairs().rows
    # Of a decode that says no more than its model nothing else is known.
    assert (pair.known_from, pair.verdict) == ("nobody", "unknown")
    assert "the models differ: prefill serves /w/qwen3, decode serves llama-3" in [
        finding.sentence for finding in pair.compatibility.findings
    ]


def test_what_is_posted_speaks_for_a_decode_named_or_not():
    serving("p")
    decode("d")
    posted = read({"tp_size": 4, "page_size": 32, "kv_cache_dtype": "auto"})
    (pair,) = pairs(posted=posted).rows
    assert (pair.decode, pair.known_from, pair.verdict, pair.usable) == ("", "posted", "incompatible", False)
    assert pair.compatibility.why_not.sentence == "page_size differs: prefill has 64, decode has 32"
    (named,) = pairs(posted=posted, decode="d").rows
    assert (named.decode, named.verdict) == ("d", "incompatible")


def test_a_decode_that_registered_once_is_compared_by_what_it_said_then():
    serving("p")
    serving("d", Topology(1, 1, 3, 1), role="decode")
    (pair,) = pairs().rows
    assert (pair.known_from, pair.verdict) == ("stored", "incompatible")
    assert pair.compatibility.why_not.effect is Effect.HANGS


def test_a_prefill_with_nobody_in_it_is_unknown_and_not_routable():
    World("p")
    decode("d")
    (pair,) = pairs().rows
    assert (pair.launch, pair.verdict, pair.prefill_routable, pair.usable) == (None, "unknown", False, False)
    assert pair.because == "no rank of p is registered"


def test_names_are_checked_and_retired_instances_are_left_out():
    serving("p")
    decode("d"), decode("e")
    instances.retire("e", actor="anna")
    assert [pair.decode for pair in pairs().rows] == ["d"]
    with pytest.raises(Refused, match="no instance is named x") as unknown:
        pairs(prefill="x")
    assert unknown.value.code == "not_found"
    with pytest.raises(Refused, match="d is a decode, not a prefill"):
        pairs(prefill="d")
    with pytest.raises(Refused, match="no instance is named e"):
        pairs(decode="e")


def test_pages_follow_one_another_also_when_somebody_went_meanwhile():
    for name in "abc":
        World(f"p-{name}")
        decode(f"d-{name}")
    every = [(row.prefill, row.decode) for row in pairs().rows]
    assert len(every) == 9 == pairs().total
    seen, after = [], ""
    while True:
        page = pairs(limit=4, after=after)
        seen += [(row.prefill, row.decode) for row in page.rows]
        after = page.next
        if not after:
            break
    assert seen == every
    instances.retire("p-b", actor="anna")
    assert pairs(after="p-b/d-b").rows[0].prefill == "p-c"
    for wrong in ({"after": "nonsense"}, {"limit": 0}, {"limit": 5000}):
        with pytest.raises(Refused) as refused:
            pairs(**wrong)
        assert refused.value.code == "malformed"


def test_the_number_of_queries_does_not_grow_with_the_pairs():
    def selects() -> int:
        with CaptureQueriesContext(connections[READER]) as captured:
            pairs()
        return sum("SELECT" in query["sql"] for query in captured)

    assert selects() == PAIR_QUERIES
    for number in range(3):
        World(f"p{number}")
        decode(f"d{number}")
    assert selects() == PAIR_QUERIES
