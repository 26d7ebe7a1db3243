"""Messages to a real receiver: signed, in order, once each, and again with the same id until they are taken."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connections

from controlplane.commands import alarm_notices, alarm_posting, alarms, intent
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.models import AlarmNotice
from controlplane.probes import outgoing
from controlplane.queries import alarms as queries
from tests.controlplane.commands.alarming import WHO, Watcher, serving, the_alarm
from tests.doubles.receiver import Receiver
from tests.support.ports import free_port


@pytest.fixture
def receiver(on_backend, monkeypatch):
    with Receiver(secret="between us") as running:
        monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", running.hook)
        monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_SECRET", "between us")
        yield running


def wait(count: int = 1) -> None:
    alarm_notices.write([alarm_notices.trial() for _ in range(count)], now=time.time())


def states() -> list[str]:
    return [row.state for row in reversed(queries.notices())]


def test_an_alarm_is_told_acknowledged_and_over_in_this_order(receiver):
    serving().refuse(4001)
    watch = Watcher()
    watch(12)
    assert alarm_posting.deliver(watch.now) == 1
    alarms.acknowledge(the_alarm().id, **WHO)
    intent.cordon("prefill-a", actor="anna", reason="a new disk")
    watch(30)
    assert alarm_posting.deliver(watch.now) == 2 and alarm_posting.deliver(watch.now) == 0
    assert receiver.kinds == ["raised", "acknowledged", "resolved"] and receiver.refused == []
    first, second, last = receiver.messages
    assert first["sentence"] == "prefill-a takes no requests: 1 of its 2 ranks is gone"
    assert (first["status"], last["status"]) == ("open", "resolved") and last["resolved_at"]
    assert second["acknowledged_by"] == "anna"
    assert {message["key"] for message in receiver.messages} == {first["key"]}
    assert states() == ["delivered"] * 3 and all(row.took_seconds is not None for row in queries.notices())


def test_a_receiver_that_knows_no_secret_gets_no_signature(receiver, monkeypatch):
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_SECRET", "")
    receiver.secret = ""
    wait()
    assert alarm_posting.deliver() == 1


def test_a_secret_as_others_make_them_is_opened():
    assert alarm_posting._secret("whsec_c2VjcmV0") == b"secret"
    assert alarm_posting._secret("whsec_?") == b"whsec_?"
    assert alarm_posting._secret("plain") == b"plain"


def test_what_is_not_taken_is_tried_again_later_and_the_others_wait_for_it(receiver):
    receiver.answer = 503
    wait(3)
    now = time.time()
    assert alarm_posting.deliver(now) == 0 and receiver.asked == 1
    first = queries.notices()[-1]
    assert (first.state, first.attempts, first.status, first.problem) == ("waiting", 1, 503, "it answered 503")
    assert now + 1 < first.due_at < now + 3
    assert alarm_posting.deliver(now) == 0 and receiver.asked == 1
    due = []
    for _ in range(12):
        now = queries.notices()[-1].due_at
        alarm_posting.deliver(now)
        due.append(queries.notices()[-1].due_at - now)
    assert max(due) <= alarm_posting.LONGEST_PAUSE_SECONDS and due[-1] > 100 and receiver.asked == 13
    receiver.answer = 200
    assert alarm_posting.deliver(queries.notices()[-1].due_at) == 3
    assert states() == ["delivered"] * 3 and len(receiver.messages) == 3 and receiver.twice == 0


def test_a_receiver_may_say_when_it_wants_to_be_asked_again(receiver):
    receiver.answer, receiver.headers = 429, {"Retry-After": "90"}
    wait()
    now = time.time()
    alarm_posting.deliver(now)
    assert queries.notices()[0].due_at == pytest.approx(now + 90, abs=1)


def test_a_message_that_is_not_understood_does_not_stop_the_others(receiver):
    receiver.answers = [400, 200]
    wait(2)
    now = time.time()
    for _ in range(alarm_posting.TRIES):
        receiver.answers = [400]
        alarm_posting.deliver(now)
        now += 60
    alarm_posting.deliver(now)
    assert states() == ["refused", "delivered"]
    assert queries.notices()[1].problem == "it answered 400"


def test_redirects_are_not_followed(receiver):
    receiver.answer, receiver.headers = 302, {"Location": f"{receiver.url}/elsewhere"}
    wait()
    alarm_posting.deliver()
    assert queries.notices()[0].problem == "it answered 302, and redirects are not followed"


def test_nobody_there_and_nobody_who_answers_are_told_apart(receiver, monkeypatch):
    monkeypatch.setattr(alarm_posting, "TIMEOUT_SECONDS", 0.3)
    receiver.hang_seconds = 5.0
    wait()
    began = time.monotonic()
    alarm_posting.deliver()
    assert time.monotonic() - began < 5 and queries.notices()[0].problem == "no usable answer came: timeout"
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", f"http://127.0.0.1:{free_port()}/")
    alarm_posting.deliver(queries.notices()[0].due_at)
    assert queries.notices()[0].problem == f"no usable answer came: {outgoing.REFUSED}"


def test_a_message_that_was_taken_without_an_answer_comes_again_with_the_same_id(receiver):
    receiver.forgets = True
    wait()
    assert alarm_posting.deliver() == 0 and len(receiver.messages) == 1
    receiver.forgets = False
    assert alarm_posting.deliver(queries.notices()[0].due_at) == 1
    assert len(receiver.messages) == 1 and receiver.twice == 1 and states() == ["delivered"]


def test_those_who_send_at_once_send_each_message_once(receiver):
    wait(20)
    gate = threading.Barrier(3)

    def deliver(_: int) -> int:
        try:
            gate.wait(30)
            return alarm_posting.deliver()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        taken = sum(pool.map(deliver, range(3)))
    taken += alarm_posting.deliver()
    assert taken == len(receiver.messages) == 20 and receiver.twice == 0
    assert [message["id"] for message in receiver.messages] == [row.notice for row in reversed(queries.notices())]


def test_a_claim_that_never_came_back_is_open_to_others_after_a_while(receiver):
    wait()
    now = time.time()
    notice = AlarmNotice.objects.using(FACTS).get()
    assert alarm_posting._claim(notice, now)
    assert alarm_posting.deliver(now + 1) == 0 and receiver.asked == 0
    assert alarm_posting.deliver(now + alarm_posting.CLAIMED_SECONDS + 1) == 1
    # Whoever claimed it first and comes back now says nothing any more.
    alarm_posting._settle(notice, alarm_posting.Answer(None, "too late"), now + 30)
    assert states() == ["delivered"] and queries.notices()[0].problem == ""


def test_a_message_that_is_due_after_the_longest_pause_is_due_now(receiver):
    """It was made before the clock was set back; all others would wait for it."""
    wait(2)
    now = time.time()
    AlarmNotice.objects.using(FACTS).update(due_at=now + 200)
    assert alarm_posting.deliver(now) == 0
    AlarmNotice.objects.using(FACTS).update(due_at=now + 7200)
    assert alarm_posting.deliver(now) == 2


def test_a_test_message_is_sent_at_once_and_not_repeated(receiver):
    notice, answer = alarm_posting.try_out()
    assert answer.taken and receiver.kinds == ["test"] and receiver.messages[0]["id"] == notice.notice
    receiver.answer = 500
    _, answer = alarm_posting.try_out()
    assert (answer.taken, answer.status, answer.problem) == (False, 500, "it answered 500")
    assert states() == ["delivered", "refused"] and alarm_posting.deliver(time.time() + 60) == 0


def test_without_a_webhook_nothing_is_sent(receiver, monkeypatch):
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", "")
    wait()
    assert alarm_posting.deliver() == 0 and receiver.asked == 0
    with pytest.raises(Refused, match="PDCP_ALARM_WEBHOOK_URL is not set"):
        alarm_posting.try_out()


def test_only_the_operators_own_address_may_be_outside_the_networks_that_are_probed(receiver, monkeypatch):
    monkeypatch.setattr(settings, "PDCP_PROBE_NETWORKS", ())
    wait()
    assert alarm_posting.deliver() == 1
    # Ourselves it is not, whoever says so.
    monkeypatch.setattr(settings, "PDCP_WEB_PORT", receiver.port)
    wait()
    assert alarm_posting.deliver() == 0
    assert "is this control plane itself" in queries.notices()[0].problem


def test_how_the_webhook_does_is_said_without_its_path(receiver):
    host = receiver.hook.split("/")[2]
    now = time.time()
    assert queries.post().sentence(now) == f"{host} was told nothing yet"
    wait()
    assert queries.post().sentence(now) == f"{host}: 1 message waiting"
    receiver.answer = 503
    alarm_posting.deliver()
    assert (
        queries.post()
        .sentence(now + 5)
        .startswith(f"{host} does not take messages: it answered 503; 1 message waiting")
    )
    receiver.answer = 200
    alarm_posting.deliver(now + 60)
    assert "took the last message" in queries.post().sentence(now + 60)
    assert "s3cret" not in queries.where()
