"""The API and the commands tell the same of the same rows, in the same words."""

import pytest

from controlplane.api.answers.events import EventAnswer
from controlplane.api.answers.instances import InstanceAnswer
from controlplane.commands import drains, gateways, instances
from controlplane.domain.topology import Slot, Topology
from controlplane.management.documents import event_document, instance_document
from controlplane.queries import events, fleet
from tests.controlplane.queries.world import World


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def test_an_instance_and_its_events_are_told_alike():
    world = World()
    ports = world.launch(Topology(2, 1, 2, 1), first_port=4000)
    world.refuse(ports[0])
    world.put(Slot(0, 0, 0, 0), Topology(2, 1, 2, 1), port=4100, flags=("unprobed",))
    instances.edit("prefill-a", own_port=9101, engine_url="http://10.0.0.3:30000", actor="anna")
    gateways.join("g1")
    gateways.report_breakers("g1", [{"instance": "prefill-a", "dp": 1, "state": "open", "reason": "3 of 3"}])
    drains.drain("prefill-a", group=1, actor="anna", reason="swap")
    row, _ = fleet.instance("prefill-a", now=world.now)
    assert _common(InstanceAnswer.of(row), instance_document(row)) == instance_document(row)
    for event in events.latest(100):
        assert EventAnswer.of(event) == event_document(event)


def _common(answer, document):
    """The answer without what only it tells (an address beside ip and port)."""
    if isinstance(document, dict):
        return {key: _common(answer[key], value) for key, value in document.items()}
    if isinstance(document, list):
        return [_common(one, other) for one, other in zip(answer, document, strict=True)]
    return answer
