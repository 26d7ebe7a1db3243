"""Whose ranks are on a host, from real tables."""

import doctest

from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.models import Rank
from controlplane.queries import hosts, sql
from tests.controlplane.queries.world import World


def test_the_examples_in_the_docstrings_are_true():
    for module in (hosts, sql):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed, module


def test_an_address_is_found_however_it_is_written_and_a_name_by_its_beginning(on_backend):
    world = World("prefill-a")
    world.launch(Topology(1, 1, 4, 1), first_port=4000)
    ranks = Rank.objects.using(FACTS).filter(instance_id=world.row.pk)
    ranks.filter(port=4000).update(ip="fd00::2")
    ranks.filter(port=4001).update(ip="node-7.rack")
    here = frozenset({world.row.pk})
    for text in ("FD00::0:2", "[fd00::2]", "[fd00::2]:4000", "fd00:", "Node-7.ra", "node-7.rack:4001", "10.0.0.1"):
        assert hosts.instances_at(text) == here, text
    for text in ("fd00::22", "[fd00::2]:4001", "node-7", "10.0.0.11", "10.0.0.1:4000", ".", "%.", ":"):
        assert hosts.instances_at(text) == frozenset(), text
    assert hosts.hosts("10.0.0.1", limit=5) == (hosts.HostRow("prefill-a", "10.0.0.1", 2, 0),)
