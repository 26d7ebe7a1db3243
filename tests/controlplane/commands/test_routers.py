"""What operators say about routers: stored with its event, compared before it is changed, and never shown in the clear."""

import pytest

from controlplane.access.secrets import unseal
from controlplane.commands import drains, instances, routers
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import after, head
from controlplane.models import Breaker, Router, RouterMember
from controlplane.queries import routers as queries

WHO = {"actor": "anna", "reason": "a test"}
URL = "http://127.0.0.1:30100"


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    for name in ("p", "d"):
        instances.add(name, role="decode" if name == "d" else "prefill", **WHO)


def test_a_router_is_added_with_its_members_and_told():
    done = routers.add("r", URL + "/", ["p", "d", "p"], f"{URL[:-1]}9", "key-R", **WHO)
    assert (done.changed, done.version) == (True, 1)
    row = queries.router("r")
    assert (row.url, row.metrics_url, row.instances, row.has_key) == (URL, "http://127.0.0.1:30109", ("d", "p"), True)
    assert (row.state, row.checked_at) == ("unknown", None) and "not been asked" in row.sentence(0.0)
    assert unseal(Router.objects.using(FACTS).get().api_key) == "key-R"
    event = after(0)[-1]
    assert (event.kind, event.actor, event.data["router"], event.data["instances"]) == (
        "router.added",
        "anna",
        "r",
        ["d", "p"],
    )
    assert "key-R" not in repr(event) and "key-R" not in repr(row)


def test_a_key_does_not_follow_its_router_to_another_address():
    routers.add("r", URL, ["p"], "", "key-R", **WHO)
    with pytest.raises(Refused, match="its key") as refusal:
        routers.edit("r", url="http://127.0.0.1:30177", **WHO)
    assert refusal.value.code == "conflict" and "key-R" not in refusal.value.sentence
    assert queries.router("r").url == URL
    assert routers.edit("r", url="http://127.0.0.1:30177", api_key="new", **WHO).changed
    assert unseal(Router.objects.using(FACTS).get().api_key) == "new"


REFUSALS = [
    ({"name": "a b"}, "malformed", "a router's name has"),
    ({"name": "r"}, "conflict", "there is a router r already"),
    ({"url": URL}, "conflict", "is r already"),
    ({"url": "http://u:p@127.0.0.1:30101"}, "malformed", "must not hold a user"),
    ({"url": "http://127.0.0.1:22"}, "forbidden", "port 22"),
    ({"metrics_url": "file:///etc/passwd"}, "malformed", "must start with http"),
    ({"instances": ["ghost"]}, "not_found", "no instance is named ghost"),
    ({"instances": [f"i{n}" for n in range(1001)]}, "too_large", "at most 1000 instances"),
    ({"api_key": "a\nb"}, "malformed", "a key has"),
    ({"api_key": "x" * 501}, "malformed", "a key has"),
    ({"actor": " "}, "malformed", "an actor is needed"),
]


def test_refusals_say_why_and_store_nothing():
    routers.add("r", URL, [], **WHO)
    before = head()
    for given, code, sentence in REFUSALS:
        with pytest.raises(Refused) as refusal:
            routers.add(**{"name": "s", "url": "http://127.0.0.1:30101", "instances": [], **WHO, **given})
        assert sentence in refusal.value.sentence and refusal.value.code == code
    assert head() == before and Router.objects.using(FACTS).count() == 1


def test_an_edit_compares_the_version_and_says_what_became_of_it():
    routers.add("r", URL, ["p"], **WHO)
    assert routers.edit("r", instances=["p", "d"], expected=1, **WHO).version == 2
    with pytest.raises(routers.StaleRouter) as refusal:
        routers.edit("r", instances=[], expected=1, **WHO)
    assert refusal.value.code == "stale"
    assert refusal.value.difference["version"] == {"expected": 1, "now": 2}
    assert refusal.value.difference["instances"] == {"now": ["d", "p"]}
    with pytest.raises(routers.StaleRouter):
        routers.remove("r", expected=1, **WHO)
    assert not routers.edit("r", instances=["d", "p"], **WHO).changed
    assert routers.edit("r", api_key="new", **WHO).changed, "whether a key is the same is not told"
    assert routers.edit("r", api_key="", **WHO).version == 4 and not queries.router("r").has_key
    kinds = [event.kind for event in after(0) if event.kind.startswith("router.")]
    assert kinds == ["router.added", *["router.changed"] * 3]


def test_a_member_that_may_be_in_the_router_is_kept_in_mind_when_it_is_taken_off_the_list():
    routers.add("r", URL, ["p", "d"], **WHO)
    RouterMember.objects.using(FACTS).filter(instance="p").update(present=True, worker_id="1")
    routers.edit("r", instances=[], **WHO)
    row = queries.router("r")
    assert row.instances == () and [(m.instance, m.wanted) for m in row.members] == [("p", False)]
    routers.edit("r", instances=["p"], **WHO)
    assert [(m.instance, m.wanted, m.present) for m in queries.router("r").members] == [("p", True, True)]


def test_a_router_that_moves_is_looked_at_anew():
    routers.add("r", URL, ["p"], **WHO)
    RouterMember.objects.using(FACTS).update(present=True, worker_id="1")
    Router.objects.using(FACTS).update(checked_at=1e9)
    routers.edit("r", url="http://127.0.0.1:30102", **WHO)
    (member,) = queries.router("r").members
    assert (member.present, member.worker_id) == (False, "")
    assert queries.router("r").checked_at is None, "a drain would take who is unseen there for absent"
    assert after(0)[-1].data["before"]["url"] == URL


def test_breakers_that_can_not_be_read_any_more_are_closed():
    routers.add("r", URL, ["p"], metrics_url="http://127.0.0.1:29000", **WHO)
    Breaker.objects.using(FACTS).create(gateway="router:r", instance="p", state="open", since=0, reported_at=0)
    routers.edit("r", metrics_url="http://127.0.0.1:29001", **WHO)
    assert Breaker.objects.using(FACTS).get().state == "open"
    routers.edit("r", metrics_url="", **WHO)
    assert Breaker.objects.using(FACTS).get().state == "closed"
    assert [e.data["after"] for e in after(0) if e.kind == "breaker.turned"] == ["closed"]


def test_a_removed_router_leaves_nothing():
    routers.add("r", URL, ["p"], **WHO)
    Breaker.objects.using(FACTS).create(gateway="router:r", instance="p", state="open", since=0, reported_at=0)
    RouterMember.objects.using(FACTS).update(present=True, worker_id="1")
    done = routers.remove("r", **WHO)
    assert done.sentence == "router r is not kept in step any more; 1 worker may still be in it"
    assert queries.listing() == ()
    assert not RouterMember.objects.using(FACTS).exists() and not Breaker.objects.using(FACTS).exists()
    with pytest.raises(Refused, match="no router is named r"):
        routers.remove("r", **WHO)
    assert routers.add("r", URL, [], **WHO).version == 1


def test_without_routers_a_round_costs_nothing():
    assert routers.reconcile() == 0


def test_a_router_that_holds_a_draining_instance_is_not_let_go_of_nor_moved_until_that_drain_is_over():
    routers.add("r", URL, ["p"], **WHO)
    router = Router.objects.using(FACTS).get(name="r")
    RouterMember.objects.using(FACTS).filter(router_id=router.pk, instance="p").update(present=True)
    drains.drain("p", **WHO)
    for work in (lambda: routers.remove("r", **WHO), lambda: routers.edit("r", url="http://127.0.0.1:30178", **WHO)):
        with pytest.raises(Refused, match="may still send to p, which is draining"):
            work()
    drains.force("p", **WHO)
    assert routers.remove("r", **WHO).changed
