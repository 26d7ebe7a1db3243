"""The page of pairs: the reason in the cell, one pair fact by fact, and a decode that is described in the question."""

import re
import time

import pytest

from controlplane.commands import instances
from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.observing import Memory, State, stored
from controlplane.domain.topology import Topology
from controlplane.models import Instance, OutcomeCount
from controlplane.queries import memo
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries
from tests.dashboard.many import many

TP4 = Topology(2, 1, 4, 1)
PAIR_QUERIES = 25
MOST_BYTES = 250_000


@pytest.fixture(autouse=True)
def _anew():
    memo.forget()


def serving(name: str, topology: Topology = TP4, role: str = "prefill") -> None:
    world = World(name)
    Instance.objects.using(FACTS).filter(pk=world.row.pk).update(role=role)
    world.launch(topology, first_port=4000)


def decode(name: str = "decode-a") -> None:
    instances.add(name, role="decode", actor="anna")


def test_a_decode_that_said_nothing_is_not_known_and_never_compatible(viewer):
    serving("prefill-a")
    decode()
    said = viewer.text("/pairs/")
    assert "1 pair · 1 usable , 0 cannot pair, 1 not known" in said
    assert "unknown decode did not say page_size, kv_cache_dtype, tp_size" in said
    assert "Describe decode-a below: decodes ask here, they do not register." in said


def test_a_decode_whose_engine_says_its_sizes_stands_there_with_them(viewer):
    serving("prefill-a")
    instances.add("decode-a", role="decode", observed_url="http://10.0.0.9:30000", actor="anna")
    heard = Memory(
        "http://10.0.0.9:30000", State.LISTED, said={"mode": "decode", "tp_size": 4, "pp_size": 1, "page_size": 64}
    )
    Instance.objects.using(FACTS).filter(name="decode-a").update(observation=stored(heard))
    said = viewer.text("/pairs/")
    assert "decode-a 64 · ? tp4 pp1 enabled" in viewer.text("/", parts="instances")
    assert "decode-a tp4 pp1" in said and "nobody said its sizes" not in said
    assert "of unknown size" not in viewer.text("/")
    decode("decode-b")
    memo.forget()
    assert "decode-b nobody said its sizes" in viewer.text("/pairs/")
    assert "1 decode of unknown size" in viewer.text("/")


def test_the_reason_stands_in_the_cell_and_the_facts_below(viewer):
    serving("prefill-a")
    serving("decode-b", Topology(1, 1, 3, 1), role="decode")
    said = viewer.text("/pairs/")
    assert "cannot pair" in said and "do not divide one another" in said
    assert "prefill-a × decode-b" in said and "as it registered" in said
    assert "tp_size 4 3 differs one divides the other" in said
    assert "page_size 64 64 equal must be equal" in said
    assert "requests wait until SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT" in said


def test_a_decode_can_be_described_and_the_argument_that_it_lacks_is_named(viewer):
    serving("prefill-a")
    decode()
    query = "as.tp_size=4&as.page_size=32&as.kv_cache_dtype=auto&as.is_mla=no"
    named = viewer.text(f"/pairs/?prefill=prefill-a&decode=decode-a&{query}")
    assert "page_size differs: prefill has 64, decode has 32" in named and "Start decode-a with --page-size 64" in named
    assert "Rank mapping, if the rest agreed" in named and "room mod 2 says the DP group" in named
    nameless = viewer.text(f"/pairs/?{query}")
    assert "prefill-a × a decode as described" in nameless and "page_size 64 ≠ 32" in nameless
    fits = viewer.text(f"/pairs/?prefill=prefill-a&decode=decode-a&{query.replace('32', '64')}")
    assert "It fits." in fits


def test_links_to_a_pair_keep_the_filter_and_the_description(viewer):
    serving("prefill-a")
    decode()
    page = viewer.get("/pairs/?q=a&as.tp_size=4")
    assert 'href="?q=a&amp;as.tp_size=4&amp;prefill=prefill-a&amp;decode=decode-a"' in page


def test_who_cannot_be_sent_work_is_said_beside_whether_it_fits(viewer):
    serving("prefill-a")
    decode()
    instances_row = Instance.objects.using(FACTS).filter(name="prefill-a")
    instances_row.update(intent="cordoned", intent_actor="anna", intent_at=time.time())
    said = viewer.text("/pairs/")
    assert "prefill-a not routable" in said and "Not routable now." in said and "cordoned" in said
    assert "0 usable" in said


def test_a_decode_can_be_described_where_there_is_none_yet(viewer):
    assert "Describe a decode" not in viewer.text("/pairs/") and "There is none yet." in viewer.text("/pairs/")
    serving("prefill-a")
    said = viewer.text("/pairs/")
    assert "or describe one below" in said and "Describe a decode" in said and "Choose a pair" not in said
    assert "prefill-a × a decode as described" in viewer.text("/pairs/?as.page_size=32&as.tp_size=4")


def test_traffic_is_told_by_pair_with_what_failed(viewer):
    serving("prefill-a")
    decode()
    assert "No gateway has reported" in viewer.text("/pairs/")
    for word, count in (("ok", 1791), ("decode_failed", 9)):
        OutcomeCount.objects.using(TRAFFIC).create(
            minute=int(time.time() // 60) - 10,
            gateway="g",
            prefill="prefill-a",
            decode="decode-a",
            outcome=word,
            count=count,
        )
    said = viewer.text("/pairs/")
    # Of ten to eleven minutes, as far as this one has come.
    pace = re.search(r"([0-9.]+)/s failed 0.5%", said)
    assert pace is not None and 2.6 <= float(pace[1]) <= 3.0
    assert "decode_failed 9" in said and "1,800" in said
    OutcomeCount.objects.using(TRAFFIC).filter(outcome="ok").update(count=20_000)
    OutcomeCount.objects.using(TRAFFIC).filter(outcome="decode_failed").update(count=1)
    assert "failed <0.1%" in viewer.text("/pairs/")
    OutcomeCount.objects.using(TRAFFIC).filter(outcome="ok").update(count=20)
    assert re.search(r" 0\.0[0-9]/s failed 4.8%", viewer.text("/pairs/"))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/pairs/?prefill=x&decode=decode-a", 404),
        ("/pairs/?prefill=decode-a&decode=prefill-a", 409),
        ("/pairs/?decode=decode-a", 400),
        ("/pairs/?as.tp_size=x", 400),
        ("/pairs/?as.tp_size=0", 400),
        ("/pairs/?as.is_mla=perhaps", 400),
        ("/pairs/?as.kv_layout=%00", 400),
    ],
)
def test_a_question_that_makes_no_sense_is_a_page_and_no_failure(viewer, path, status):
    serving("prefill-a")
    decode()
    assert "Request" in viewer.text(path, status=status)


def test_an_empty_fleet_says_what_is_missing(viewer):
    assert "There is neither a prefill nor a decode yet." in viewer.text("/pairs/")
    serving("prefill-a")
    assert "manage.py instances add decode-a --role decode" in viewer.text("/pairs/")
    assert "No pair has “x” in a name" in viewer.text("/pairs/?q=x")
    decode()
    page = viewer.get("/pairs/?q=<script>alert(1)</script>")
    assert "<script>alert" not in page


def test_pairs_are_taken_away_as_csv(viewer):
    serving("prefill-a")
    decode()
    assert viewer.get("/pairs.csv").splitlines()[1].startswith("prefill-a,1,decode-a,nobody,unknown,True,,")


def test_the_page_asks_as_much_and_weighs_as_little_with_many_as_with_one(viewer):
    serving("prefill-a")
    decode()

    def cost(path: str) -> int:
        memo.forget()
        with queries() as asked:
            page = viewer.get(path)
        assert len(page.encode()) < MOST_BYTES
        return len(asked)

    before = cost("/pairs/")
    many(60, Topology(2, 1, 4, 1))
    many(40, Topology(1, 1, 4, 1), role="decode")
    assert cost("/pairs/") == before == PAIR_QUERIES
    assert "2,501 pairs" in viewer.text("/pairs/")
