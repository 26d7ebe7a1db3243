"""`manage.py up`: starts everything, keeps it running, stops everything, leaves nothing."""

import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from tests.supervisor.conftest import READY, command_of, get, runs
from tests.support.machine import slowness
from tests.support.processes import ROOT, freeze


def test_it_starts_every_process_and_says_where_they_listen(up):
    run = up(first=True).wait_ready()
    commands = [command_of(process) for process in run.family()]
    for part in ("manage.py bootstrap", "manage.py web", "celery", "valkey-server|redis-server"):
        assert any(re.search(part, command) for command in commands), (part, commands)
    for port in run.ports.values():
        assert re.search(rf"^  \S.*:{port}\b", run.output, re.MULTILINE)
    assert get(f"{run.web}/livez").text == "OK\n"
    ready = get(f"{run.web}/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert set(ready.json()["checks"].values()) == {"ok"}


@pytest.mark.timeout(300)
def test_it_is_ready_within_five_seconds_once_installed(up):
    # The best of a few, in seconds of a machine without other work: that may slow a start, not make one fast.
    seconds = []
    for _ in range(4):
        before = slowness()
        run = up(first=True)
        said = float(run.wait_for(READY)["seconds"])
        seconds.append(said / max(before, slowness()))
        run.signal(signal.SIGTERM)
        run.wait()
        if min(seconds) < 5:
            break
    assert min(seconds) < 5, seconds


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_stops_everything_within_seconds(up, number):
    run = up().wait_ready()
    run.family()
    began = time.monotonic()
    run.signal(number)
    assert run.wait() == 0
    assert time.monotonic() - began < 30
    assert run.survivors(within=5) == []
    assert "Traceback" not in run.output
    assert list(run.run_dir.iterdir()) == []


def test_a_signal_during_the_start_stops_what_was_started(up):
    run = up()
    run.wait_for("bootstrap ready|web ready|celery ready")
    run.family()
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    assert run.survivors(within=5) == []


def test_sigkill_of_the_supervisor_leaves_nothing_behind(up):
    run = up().wait_ready()
    run.family()
    run.signal(signal.SIGKILL)
    run.wait()
    assert run.survivors(within=20) == []
    assert list(run.run_dir.iterdir()) == []


def test_after_a_sigkill_the_next_run_waits_for_the_leftovers_and_starts(up):
    first = up().wait_ready()
    first.family()
    first.signal(signal.SIGKILL)
    first.wait()
    second = up(**first.ports).wait_ready()
    assert get(f"{first.web}/livez").status_code == 200
    assert second.process.poll() is None


def test_sigkill_of_supervisor_and_watchdog_together_leaves_nothing_behind_on_linux(up):
    if sys.platform != "linux":
        pytest.skip("only Linux ties a child's life to its parent's")
    run = up().wait_ready()
    run.family()
    watchdog = run.child("watchdog.py")
    freeze(run.process.pid)
    watchdog.kill()
    run.signal(signal.SIGKILL)
    run.wait()
    assert run.survivors(within=20) == []


def test_when_make_is_killed_the_run_that_it_started_ends_too(up):
    run = up(behind="make")
    run.wait_ready().family()
    run.signal(signal.SIGKILL)
    run.wait()
    assert run.survivors(within=20) == []


def test_a_second_run_on_the_same_data_directory_is_refused(up):
    first = up().wait_ready()
    second = up()
    assert second.wait() == 3
    assert f"pid {first.process.pid}" in second.output
    assert "PDCP_DATA_DIR" in second.output
    assert first.process.poll() is None


@pytest.mark.parametrize("variable", ["PDCP_WEB_PORT", "PDCP_KV_PORT", "PDCP_ENGINE_INFO_PORT"])
def test_a_taken_port_is_named_with_its_holder_and_its_variable_and_nothing_is_served(up, variable):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = up(**{variable: port})
        run.wait_for(variable)
        assert run.wait() == 3
    assert re.search(rf"\b{port}\b.*{variable}", run.output)
    assert str(psutil.Process().pid) in run.output
    assert not READY.search(run.output)
    assert "Traceback" not in run.output


@pytest.mark.parametrize("words", ["manage.py bootstrap", "manage.py web", "celery", "unixsocket"])
def test_a_child_that_dies_is_started_again_and_this_is_logged(up, words):
    run = up().wait_ready()
    run.family()
    old = run.child(words)
    own = old.children(recursive=True)
    old.kill()
    run.wait_for("child died")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if run.child(words).pid != old.pid and get(f"{run.web}/readyz").status_code == 200:
                for port in run.ports.values():
                    socket.create_connection(("127.0.0.1", port), timeout=20).close()
                break
        except (AssertionError, OSError, httpx.TransportError):
            pass
        time.sleep(0.1)
    else:
        raise AssertionError(run.output)
    # Celery's beat is a process of its own: it must not outlive its worker and tick beside the next one's.
    deadline = time.monotonic() + 5
    while any(map(runs, own)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [process for process in own if runs(process)]


def test_a_wrong_setting_is_one_sentence_and_exit_2(up):
    run = up(PDCP_ROOM_LIMIT="many")
    assert run.wait() == 2
    assert run.output.strip() == "error: PDCP_ROOM_LIMIT: must be a whole number, not 'many'"


def test_commands_beside_it_find_its_redis_and_after_it_find_none(up, tmp_path):
    def redis_url() -> str:
        code = "from django.conf import settings; print(settings.REDIS_URL)"
        done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    run = up().wait_ready()
    env = {**run.env, "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    assert redis_url().startswith(f"unix://{run.run_dir}/")
    run.signal(signal.SIGTERM)
    run.wait()
    assert redis_url() == ""


def run_code(run, code: str) -> str:
    """What the code prints that runs as a command beside this control plane."""
    done = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup()\n{code}"],
        cwd=ROOT,
        env={**run.env, "DJANGO_SETTINGS_MODULE": "controlplane.settings"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HOUSEKEEPING = """
import time
from datetime import timedelta
from django.utils import timezone
from controlplane.access import links
from controlplane.models.access import SignInLink
from controlplane.tasks.housekeeping import delete_spent_sign_in_links
links.issue(now=timezone.now() - timedelta(hours=1))
links.issue(now=timezone.now())
delete_spent_sign_in_links.delay()
deadline = time.monotonic() + 40
while SignInLink.objects.count() > 1 and time.monotonic() < deadline:
    time.sleep(0.1)
print(SignInLink.objects.count())
"""


def test_celery_does_what_is_asked_through_the_embedded_redis(up):
    run = up().wait_ready()
    assert run_code(run, HOUSEKEEPING) == "1"


def test_with_a_redis_given_none_is_started(up, redis_url):
    run = up(REDIS_URL=redis_url).wait_ready()
    assert not any("unixsocket" in command_of(process) for process in run.family())
    assert get(f"{run.web}/readyz").json()["checks"]["redis"] == "ok"
    assert run_code(run, HOUSEKEEPING) == "1"


def test_it_runs_on_postgresql_and_stops_as_cleanly(up, postgresql_backend):
    run = up(DATABASE_URL=postgresql_backend.database_url).wait_ready()
    assert get(f"{run.web}/readyz").status_code == 200
    assert run_code(run, HOUSEKEEPING) == "1"
    run.family()
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    assert run.survivors(within=5) == []
    assert "Traceback" not in run.output


def test_a_celery_worker_alone_without_redis_refuses_with_a_sentence(sqlite_backend):
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "controlplane", "worker", "-P", "threads"],
        cwd=ROOT, env=sqlite_backend.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "REDIS_URL is not set" in done.stderr


def test_a_redis_or_a_database_that_does_not_answer_is_named_by_its_variable(up):
    for variable, url in (
        ("REDIS_URL", "redis://127.0.0.1:1/0"),
        ("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/n"),
    ):
        run = up(**{variable: url})
        assert run.wait() == 1
        assert variable in run.output
        assert "hunter2" not in run.output
        assert "Traceback" not in run.output
