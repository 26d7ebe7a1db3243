"""Idempotency-Key: what was done once is not done twice, and the first answer is given again."""

import threading
import time

import pytest
from django.db import connections

from controlplane.api import idempotency
from controlplane.commands import instances
from controlplane.models import Event, IdempotentRequest
from tests.controlplane.api.client import Api, person, token_of


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def test_the_same_request_again_gets_the_first_answer_and_no_second_deed(operator):
    body = {"name": "a", "reason": "rack 4"}
    first = operator.post("instances", body, Idempotency_Key="k1")
    again = operator.post("instances", body, Idempotency_Key="k1")
    assert (again.status, again.json) == (201, first.json)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert Event.objects.filter(kind="instance.added").count() == 1
    # Another key is another request.
    assert operator.post("instances", body, Idempotency_Key="k2").status == 409


def test_a_refusal_is_given_again_as_well(operator):
    refused = operator.post("instances/a/cordon", {}, Idempotency_Key="k1")
    instances.add("a", actor="anna")
    assert operator.post("instances/a/cordon", {}, Idempotency_Key="k1").json == {
        **refused.json,
        "request_id": refused.json["request_id"],
    }
    assert operator.post("instances/a/cordon", {}).json["changed"]


def test_another_payload_under_the_same_key_is_refused(operator):
    operator.post("instances", {"name": "a"}, Idempotency_Key="k1")
    for path, body in (("instances", {"name": "b"}), ("instances/a/cordon", {"name": "a"})):
        other = operator.post(path, body if path == "instances" else {}, Idempotency_Key="k1")
        assert (other.status, other.code) == (422, "other_payload")
    assert operator.post("instances", {"name": "b"}, Idempotency_Key="k 1").status == 400


def test_keys_of_others_are_others(operator):
    operator.post("instances", {"name": "a"}, Idempotency_Key="k1")
    bob = Api(user=person("operator", "bob"))
    assert bob.post("instances", {"name": "b"}, Idempotency_Key="k1").status == 201
    # A token with the same name as another's is somebody else, and is not told what that one did.
    first, second = (Api(token=token_of("operate", name="ci")) for _ in range(2))
    assert first.post("instances", {"name": "c"}, Idempotency_Key="k2").status == 201
    assert second.post("instances", {"name": "c"}, Idempotency_Key="k2").code == "other_payload"


def test_a_request_in_flight_is_waited_for_by_whoever_sent_it_twice(operator):
    operator.post("instances", {"name": "a"}, Idempotency_Key="k1")
    IdempotentRequest.objects.update(status=0, at=time.time())
    twice = operator.post("instances", {"name": "a"}, Idempotency_Key="k1")
    assert (twice.status, twice.code) == (409, "in_flight")
    # Whoever worked on it died: after a minute it is done again.
    IdempotentRequest.objects.update(at=time.time() - idempotency.IN_FLIGHT_SECONDS - 1)
    assert operator.post("instances", {"name": "a"}, Idempotency_Key="k1").status == 409
    assert IdempotentRequest.objects.get().status == 409


def test_of_many_at_once_one_does_it(on_backend):
    user, answers = person("operator"), []

    def send() -> None:
        try:
            answers.append(Api(user=user).post("instances", {"name": "a"}, Idempotency_Key="k1"))
        finally:
            connections.close_all()

    senders = [threading.Thread(target=send) for _ in range(6)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert {answer.status for answer in answers} <= {201, 409}
    assert any(answer.status == 201 for answer in answers)
    assert all(answer.code == "in_flight" for answer in answers if answer.status == 409)
    assert Event.objects.filter(kind="instance.added").count() == 1


def test_an_answer_that_a_second_try_could_better_is_not_kept(operator, monkeypatch):
    from controlplane.commands import instances as commands

    def broken(*_, **__):
        raise RuntimeError("for a moment")

    with monkeypatch.context() as patched:
        patched.setattr(commands, "add", broken)
        assert operator.post("instances", {"name": "a"}, Idempotency_Key="k1").status == 500
    assert operator.post("instances", {"name": "a"}, Idempotency_Key="k1").status == 201


def test_answers_are_forgotten_after_a_day(operator):
    operator.post("instances", {"name": "a"}, Idempotency_Key="k1")
    IdempotentRequest.objects.update(at=time.time() - idempotency.KEPT_SECONDS - 1)
    operator.post("instances", {"name": "b"}, Idempotency_Key="k2")
    assert [row.key for row in IdempotentRequest.objects.all()] == ["k2"]
