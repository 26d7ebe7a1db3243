"""Events about gateways, breakers and routers, as sentences."""

import pytest

from controlplane.ledger.tail import EventRow
from controlplane.queries.events import sentence
from controlplane.queries.telling_gateways import TELL

ROUTER = {"router": "r", "url": "http://10.0.0.9:30000"}
TURNED = {"gateway": "g", "dp": None, "before": "closed", "after": "open", "reason": ""}
TOLD = [
    ("gateway.joined", {"gateway": "g", "url": "http://10.0.0.8:80"}, "gateway g joined from http://10.0.0.8:80"),
    ("gateway.joined", {"gateway": "g", "url": ""}, "gateway g joined"),
    ("gateway.left", {"gateway": "g", "why": "it said goodbye"}, "gateway g left: it said goodbye"),
    ("breaker.turned", TURNED, "the breaker of gateway g is open, before closed"),
    (
        "breaker.turned",
        {**TURNED, "gateway": "router:r", "dp": 2, "before": "half_open", "after": "closed", "reason": "probe passed"},
        "the breaker of router r for DP group 2 is closed, before half open: probe passed",
    ),
    (
        "router.added",
        {**ROUTER, "instances": ["a", "d"]},
        "router r at http://10.0.0.9:30000, kept in step with a, d: added",
    ),
    (
        "router.changed",
        {**ROUTER, "instances": []},
        "router r at http://10.0.0.9:30000, kept in step with no instance: changed",
    ),
    ("router.removed", ROUTER, "router r at http://10.0.0.9:30000 is not kept in step any more"),
    ("router.restarted", {"router": "r"}, "router r came back empty: it is told of its workers again"),
    (
        "router.worker_added",
        {"router": "r", "worker": "http://10.0.0.1:30000", "why": "it is enabled and ready"},
        "router r sends to http://10.0.0.1:30000 now: it is enabled and ready",
    ),
    (
        "router.worker_removed",
        {"router": "r", "worker": "http://10.0.0.1:30000", "why": "a is cordoned"},
        "router r sends nothing to http://10.0.0.1:30000 any more: a is cordoned",
    ),
]


@pytest.mark.parametrize(("kind", "data", "said"), TOLD)
def test_each_kind_has_a_sentence(kind, data, said):
    assert sentence(EventRow(1, 0.0, kind, "a", "anna", "", data)) == said


def test_all_kinds_are_told_here():
    assert {kind for kind, _, _ in TOLD} == TELL.keys()
