"""Public reports: what operators must be able to see of weights and of pairs that cannot work."""

import tests.support.inside  # noqa: F401  isort: skip
from controlplane.commands import instances
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.models import Instance
from controlplane.queries import memo
from tests.controlplane.queries import world
from tests.dashboard.conftest import on_backend, viewer
from tests.dashboard.test_weights import publish, seed

__all__ = ["on_backend", "viewer"]


def test_ENG_03_the_pages_show_15_of_16_and_which_rank_is_missing(viewer):
    """Two nodes of eight ranks each; rank 11 is delayed. A seed registers no launch, so only its highest rank is known."""
    head = seed("seed-a")
    for rank in (*range(11), *range(12, 16)):
        publish(head, rank, session=f"10.0.1.{10 if rank < 8 else 11}:{17000 + rank}")
    for path in ("/weights/", "/weights/seed-a/"):
        assert "15 of at least 16 ranks, missing 11" in viewer.text(path)
    publish(head, 11)
    assert "missing" not in viewer.text("/weights/seed-a/").split("Sessions by rank")[0]


def test_ENG_03_a_seed_that_registers_as_well_is_counted_against_its_launch(viewer):
    made = world.World("prefill-a")
    made.launch(Topology(1, 1, 16, 1), first_port=4000)
    for rank in (*range(11), *range(12, 15)):
        publish(made.row.pk, rank)
    assert "14 of 16 ranks, missing 11, 15" in viewer.text("/weights/")


def test_TOP_05_a_pair_of_unequal_page_sizes_is_shown_with_both_values_and_what_happens(viewer):
    memo.forget()
    world.World("prefill-a").launch(Topology(1, 1, 4, 1), first_port=4000)
    instances.add("decode-a", role="decode", actor="anna")
    said = viewer.text("/pairs/?prefill=prefill-a&decode=decode-a&as.tp_size=4&as.page_size=128&as.kv_cache_dtype=auto")
    assert "page_size differs: prefill has 64, decode has 128: the decode raises in its scheduler" in said
    assert "Start decode-a with --page-size 64" in said and "cannot pair" in said
    assert Instance.objects.using(FACTS).get(name="decode-a").intent == "enabled"
