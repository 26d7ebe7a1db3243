"""The alarm tasks: killed at every step between seeing, deciding and sending, everything is told, and decided once."""

import random
import signal
import subprocess
import sys
import time

import pytest
from django.conf import settings

from controlplane.commands import alarm_notices, alarm_posting, intent
from controlplane.models import Alarm, AlarmNotice
from controlplane.tasks import alarms as tasks
from controlplane.tasks.alarms import forget_old_alarms, send_alarm_notices, watch_alarms
from tests.controlplane.commands.alarming import Watcher, events, forget, open_alarms, serving
from tests.controlplane.tasks.dying_alarms import DECIDING, SENDING
from tests.doubles.receiver import Receiver
from tests.support.processes import ROOT

SECRET = "between us"


@pytest.fixture
def receiver(on_backend, monkeypatch):
    forget()
    with Receiver(secret=SECRET) as running:
        monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", running.hook)
        monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_SECRET", SECRET)
        yield running


def test_the_tasks_run_and_may_run_without_any_alarm(receiver):
    serving()
    Watcher()
    watch_alarms()
    send_alarm_notices()
    forget_old_alarms()
    assert receiver.asked == 0 and open_alarms() == []


def test_all_that_is_too_much_goes_in_one_round(receiver, monkeypatch):
    monkeypatch.setattr(alarm_notices, "AT_ONCE", 3)
    notices = alarm_notices.write([alarm_notices.trial() for _ in range(10)], now=1.0)
    AlarmNotice.objects.filter(pk__in=[row.pk for row in notices]).update(state="delivered", ended_at=2.0)
    forget_old_alarms()
    assert not AlarmNotice.objects.exists()


def test_a_round_that_took_long_is_followed_by_a_rest(receiver, monkeypatch):
    serving().refuse(4001)
    Watcher()
    monkeypatch.setattr(tasks, "_rests_until", [time.monotonic() + 600])
    watch_alarms()
    assert not Alarm.objects.exists()
    monkeypatch.setattr(tasks, "_rests_until", [0.0])
    began = time.monotonic()
    watch_alarms()
    ended = time.monotonic()
    assert Alarm.objects.exists()
    assert began < tasks._rests_until[0] <= ended + tasks.RESTS * (ended - began)


def test_killed_between_deciding_and_sending_everything_is_told_and_nothing_decided_twice(receiver, on_backend):
    killed_at_every_step(receiver, on_backend, random.Random(20250))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_killed_in_many_orders_everything_is_told(receiver, on_backend, seed):
    killed_at_every_step(receiver, on_backend, random.Random(seed))


def killed_at_every_step(receiver: Receiver, on_backend, chance: random.Random) -> None:
    env = {
        **on_backend.env,
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "PDCP_ENV_FILE": "/dev/null",
        "PDCP_ALARM_WEBHOOK_URL": receiver.hook,
        "PDCP_ALARM_WEBHOOK_SECRET": SECRET,
    }

    def die_at(step: str) -> None:
        argv = [sys.executable, "-m", "tests.controlplane.tasks.dying_alarms", step, str(watch.now)]
        died = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
        assert died.returncode == -signal.SIGKILL, died.stderr

    serving().refuse(4001)
    watch = Watcher()
    watch(6)
    assert open_alarms() == []
    # The next round is the one that raises it: it dies at every step, and only the last leaves anything behind.
    watch.now += 3.0
    watch.leads = True
    for step in chance.sample(DECIDING[:-1], len(DECIDING) - 1):
        die_at(step)
        assert events() == [] and open_alarms() == []
    die_at("committed")
    assert len(events("alarm.raised")) == len(open_alarms()) == 1
    for step in chance.sample(SENDING[:-1], len(SENDING) - 1):
        die_at(step)
        watch.now += alarm_posting.CLAIMED_SECONDS + 1
    die_at("settled")
    # Taken before somebody died, and once more after that: the receiver knows it by its id.
    assert receiver.kinds == ["raised"] and receiver.twice == 1 and receiver.refused == []
    intent.cordon("prefill-a", actor="anna", reason="a new disk")
    watch(30)
    assert alarm_posting.deliver(watch.now) == 1
    assert receiver.kinds == ["raised", "resolved"]
    assert len(events("alarm.raised")) == len(events("alarm.resolved")) == 1
