"""Adding, editing and retiring instances, on both databases."""

import pytest
from django.conf import settings

from controlplane.access import secrets
from controlplane.commands import instances
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import head, latest
from controlplane.models import Instance

WHO = {"actor": "anna", "reason": "a test"}


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def stored(name: str) -> Instance:
    return Instance.objects.using(FACTS).get(name=name)


def test_an_instance_is_added_with_its_event_in_one_transaction():
    done = instances.add("prefill-a", own_port=9101, host_alias="A.Example.", **WHO)
    assert done.sentence == "prefill-a was added as prefill, reached by port 9101 and the name a.example"
    (event,) = latest(10)
    assert (event.kind, event.instance, event.actor, event.reason) == ("instance.added", "prefill-a", "anna", "a test")
    assert event.data == {
        "name": "prefill-a",
        "role": "prefill",
        "own_port": 9101,
        "host_alias": "a.example",
        "engine_url": "",
        "observed_url": "",
        "observed_engine_info_url": "",
        "probe_seconds": None,
        "fail_after": None,
        "pass_after": None,
        "version": 1,
    }
    assert (stored("prefill-a").intent, stored("prefill-a").own_port) == ("enabled", 9101)


REFUSALS = [
    ({"name": "no spaces"}, "an instance name has 1 to 100"),
    ({"name": ""}, "an instance name has 1 to 100"),
    ({"role": "router"}, "the role must be one of prefill, decode, seed"),
    ({"own_port": 0}, "a port is between 1 and 65535, not 0"),
    ({"own_port": 65536}, "a port is between 1 and 65535"),
    ({"own_port": settings.PDCP_KV_PORT}, "this control plane's own (PDCP_KV_PORT)"),
    ({"own_port": settings.PDCP_WEB_PORT}, "this control plane's own (PDCP_WEB_PORT)"),
    ({"own_port": 9101}, "port 9101 belongs to first"),
    ({"host_alias": "first.example"}, "the name first.example belongs to first"),
    ({"host_alias": "127.0.0.1"}, "must be a DNS name"),
    ({"host_alias": "localhost"}, "must be a DNS name"),
    ({"host_alias": "two words"}, "neither an IP address nor a DNS name"),
    ({"engine_url": "ftp://node-1:30000"}, "must start with http:// or https://"),
    ({"engine_url": "http://anna:secret@node-1:30000"}, "must not hold a user or a password"),
    ({"engine_url": "http://169.254.169.254/"}, "a metadata service"),
    ({"engine_key": "two\nlines"}, "an API key is at most"),
    ({"actor": " "}, "an actor is needed"),
    ({"actor": "a" * 151}, "at most 150"),
    ({"reason": "nul\x00"}, "NUL"),
    ({"name": "first"}, "there is an instance first already; it is enabled"),
]


def test_what_cannot_be_is_refused_with_a_sentence_and_nothing_is_stored():
    instances.add("first", own_port=9101, host_alias="first.example", **WHO)
    before = head()
    for change, sentence in REFUSALS:
        asked = {"name": "second", **WHO, **change}
        with pytest.raises(Refused) as refusal:
            instances.add(asked.pop("name"), **asked)
        assert sentence in refusal.value.sentence
    assert head() == before
    assert Instance.objects.using(FACTS).count() == 1


def test_a_port_that_begins_like_another_is_advised_against_and_one_with_as_many_digits_is_not():
    assert instances.add("a", own_port=9101, **WHO).advice == ()
    assert instances.add("b", own_port=9102, **WHO).advice == ()
    (advice,) = instances.add("c", own_port=910, **WHO).advice
    assert advice.startswith("port 910 and 9101 (a), 9102 (b) begin alike")
    kv = settings.PDCP_KV_PORT
    assert f"{kv} (PDCP_KV_PORT)" in instances.edit("c", own_port=kv // 10, **WHO).advice[0]


def test_a_retired_instance_gives_back_its_port_and_comes_back_when_it_is_added_again():
    instances.add("a", role="seed", own_port=9101, host_alias="a.example", **WHO)
    id_ = stored("a").pk
    assert "port 9101 is free" in instances.retire("a", **WHO).sentence
    assert (stored("a").intent, stored("a").own_port, stored("a").host_alias) == ("retired", None, None)
    instances.add("b", own_port=9101, host_alias="a.example", **WHO)
    assert instances.add("a", own_port=9102, **WHO).sentence == "a was added again as prefill, reached by port 9102"
    again = stored("a")
    assert (again.pk, again.intent, again.role, again.retired_at) == (id_, "enabled", "prefill", None)
    kinds = [(event.kind, event.instance) for event in latest(10)]
    assert kinds == [
        ("instance.added", "a"),
        ("instance.retired", "a"),
        ("instance.added", "b"),
        ("instance.added", "a"),
    ]
    assert latest(3)[0].data["own_port"] == 9101


def test_retiring_twice_changes_nothing_the_second_time():
    instances.add("a", **WHO)
    assert instances.retire("a", **WHO).changed
    before = head()
    assert not instances.retire("a", **WHO).changed
    assert head() == before
    with pytest.raises(Refused, match="no instance is named ghost"):
        instances.retire("ghost", **WHO)


def test_an_edit_changes_only_what_it_names_and_says_what_was_before():
    instances.add("a", own_port=9101, host_alias="a.example", **WHO)
    instances.edit("a", own_port=9102, **WHO)
    assert (stored("a").own_port, stored("a").host_alias) == (9102, "a.example")
    instances.edit("a", host_alias=None, **WHO)
    assert (stored("a").own_port, stored("a").host_alias) == (9102, None)
    event = latest(1)[0]
    assert event.kind == "instance.changed"
    assert event.data["before"] == {
        "own_port": 9102,
        "host_alias": "a.example",
        "engine_url": "",
        "observed_url": "",
        "observed_engine_info_url": "",
        "probe_seconds": None,
        "fail_after": None,
        "pass_after": None,
    }
    before = head()
    assert not instances.edit("a", own_port=9102, **WHO).changed
    assert head() == before


def test_a_command_leaves_the_columns_of_the_bootstrap_process_alone():
    instances.add("a", **WHO)
    Instance.objects.using(FACTS).filter(name="a").update(next_launch=7, debt_since=1.0, debt_hold=True)
    instances.edit("a", own_port=9101, **WHO)
    instances.retire("a", **WHO)
    instances.add("a", **WHO)
    row = stored("a")
    assert (row.next_launch, row.debt_since, row.debt_hold) == (7, 1.0, True)


def test_an_engine_is_named_by_its_url_and_its_key_is_sealed_and_said_nowhere():
    instances.add("a", engine_url="HTTP://Node-1:30000/", engine_key="k" * 20, **WHO)
    row = stored("a")
    assert row.engine_url == "http://node-1:30000"
    assert "k" * 20 not in row.engine_key and secrets.unseal(row.engine_key) == "k" * 20
    before = head()
    assert not instances.edit("a", engine_url="http://node-1:30000", engine_key="k" * 20, **WHO).changed
    assert head() == before
    instances.edit("a", engine_key="other", **WHO)
    event = latest(1)[0]
    assert event.data["engine_key_changed"] and "other" not in str(event.data)
    instances.edit("a", engine_url=None, engine_key=None, **WHO)
    assert (stored("a").engine_url, stored("a").engine_key) == ("", "")


def test_a_key_does_not_follow_its_engine_to_another_address():
    instances.add("a", engine_url="http://node-1:30000", engine_key="k" * 20, **WHO)
    before = head()
    for elsewhere in ("http://node-2:30000", "http://node-1:30001", "https://node-1:30000"):
        with pytest.raises(Refused, match="its API key") as refusal:
            instances.edit("a", engine_url=elsewhere, **WHO)
        assert refusal.value.code == "conflict" and "k" * 20 not in refusal.value.sentence
    assert head() == before
    assert instances.edit("a", engine_url="http://node-1:30000/v2", **WHO).changed, "the same server"
    assert instances.edit("a", engine_url="http://node-2:30000", engine_key="other", **WHO).changed
    assert secrets.unseal(stored("a").engine_key) == "other"
    instances.edit("a", engine_url=None, **WHO)
    assert stored("a").engine_key == "", "where there is no engine there is no key"
    instances.edit("a", engine_key="early", **WHO)
    with pytest.raises(Refused, match="its API key"):
        instances.edit("a", engine_url="http://node-3:30000", **WHO)


def test_every_change_counts_and_whoever_saw_an_older_one_is_told_what_is_different():
    instances.add("a", own_port=9101, **WHO)
    assert stored("a").version == 1
    instances.edit("a", own_port=9102, actor="ben", reason="moved", expected=1)
    with pytest.raises(instances.Stale) as stale:
        instances.edit("a", own_port=9103, expected=1, **WHO)
    assert stale.value.code == "stale"
    assert stale.value.sentence == (
        "a was changed by ben meanwhile (version 1 → 2): own_port 9101 → 9102; nothing was done"
    )
    difference = stale.value.difference
    assert difference["version"] == {"expected": 1, "now": 2}
    assert difference["own_port"] == {"expected": 9101, "now": 9102}
    assert (difference["changed_by"]["now"], difference["reason"]["now"]) == ("ben", "moved")
    assert stored("a").own_port == 9102
    with pytest.raises(instances.Stale):
        instances.retire("a", expected=1, **WHO)
    instances.retire("a", expected=2, **WHO)
    with pytest.raises(instances.Stale) as stale:
        instances.add("a", expected=2, **WHO)
    assert stale.value.difference["intent"] == {"expected": "enabled", "now": "retired"}
    assert [event.data["version"] for event in latest(10)] == [1, 2, 3]
