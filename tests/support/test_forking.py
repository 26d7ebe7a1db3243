"""A forked command is as one that was executed: the same settings, words, files, signals and end."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support import plugin, processes
from tests.support.forking import Forked
from tests.support.plugin import forking
from tests.support.processes import ROOT, Child, clean_env, manage
from tests.support.web import Web

# Values that reach every kind of knob: databases, Redis, caches, layers, logs, the web's own, and what is counted once.
ODD = {
    "ALLOWED_HOSTS": "one.example,two.example",
    "CSRF_TRUSTED_ORIGINS": "https://one.example",
    "DATABASE_URL": "postgres://anna:secret@db.example:5433/pd",
    "DEBUG": "1",
    "LOG_FORMAT": "json",
    "LOG_LEVEL": "DEBUG",
    "PDCP_KEEP_EVENTS_DAYS": "3",
    "PDCP_PROBE_NETWORKS": "none",
    "REDIS_URL": "redis://cache.example:6380/2",
}
# Django completes DATABASES in place at the first use: which is sooner or later, and does not matter.
SETTINGS = """
from django.core.management import call_command
from django.db import connections
connections.settings
call_command("diffsettings", output="hash")
"""
CONNECTIONS = """
import json, logging, structlog
from channels.layers import channel_layers
from django.core.cache import caches
from django.db import connections
from controlplane.celery import app
print(json.dumps([
    connections.settings, caches.settings, channel_layers.configs, app.conf.broker_url, logging.getLogger().level,
    type(structlog.get_config()["processors"][-1]).__name__, app.conf.beat_schedule,
], default=str, sort_keys=True))
"""


@pytest.fixture
def zygote():
    if sys.platform != "linux":
        pytest.skip("only Linux forks them")
    if processes.zygote is not None:
        yield processes.zygote
        return
    with forking() as made:
        yield made


SHELL = ["shell", "--no-imports", "-c"]


@pytest.mark.parametrize(
    "words", [[*SHELL, SETTINGS], [*SHELL, CONNECTIONS], ["check", "--deploy"], ["nonsense"]], ids=range(4)
)
def test_it_says_what_an_executed_one_says(zygote, tmp_path, words):
    env = clean_env(PDCP_DATA_DIR=tmp_path, PDCP_ENV_FILE="/dev/null", **ODD)
    forked = manage(*words, env=env)
    executed = subprocess.run([sys.executable, "manage.py", *words], cwd=ROOT, env=env, capture_output=True, text=True)
    assert (forked.returncode, forked.stdout) == (executed.returncode, executed.stdout)
    assert forked.stderr.splitlines()[-1:] == executed.stderr.splitlines()[-1:]


def test_an_environment_that_the_interpreter_itself_reads_is_executed(zygote):
    argv = [sys.executable, "manage.py", "check"]
    assert zygote.can(argv, clean_env())
    assert not zygote.can(argv, clean_env(LD_PRELOAD="libfaketime.so"))
    assert not zygote.can(argv, clean_env(PYTHONUNBUFFERED=None))
    assert not zygote.can([sys.executable, "-m", "tests.compat.driver"], clean_env())
    assert not zygote.can(["sh", "-c", "true"], clean_env())


def test_without_its_imports_all_is_executed(tmp_path, monkeypatch):
    if sys.platform != "linux":
        pytest.skip("only Linux forks them")
    monkeypatch.setattr(plugin, "clean_env", lambda **knobs: clean_env(**knobs, LOG_LEVEL="nonsense"))
    with forking() as made:
        assert not made.can([sys.executable, "manage.py", "check"], clean_env())
        assert manage("nonsense", env=clean_env(PDCP_DATA_DIR=tmp_path)).returncode == 1


def shell(code: str, tmp_path, **more) -> Child:
    env = clean_env(PDCP_DATA_DIR=tmp_path, PDCP_ENV_FILE="/dev/null", OWN="yes")
    return Child([sys.executable, "manage.py", *SHELL, code], env=env, log=tmp_path / "log", **more)


def test_it_has_its_own_environment_files_and_name_and_is_heard(zygote, tmp_path):
    facts = "os.environ['OWN'], len(os.listdir('/proc/self/fd')), os.getcwd(), input(), os.getpid()"
    code = f"import json, os, sys; print('up'); print(json.dumps([{facts}])); print('wrong', file=sys.stderr)"
    child = shell(code, tmp_path, stdin=True)
    assert isinstance(child._process, Forked)
    child.wait_for_line("^up$", timeout=60)
    assert "manage.py shell" in " ".join(psutil.Process(child.pid).cmdline())
    child.say("hello")
    own, files, cwd, said, pid = json.loads(child.wait_for_line(r"^\[.*", timeout=60)[0])
    # Its own three, and the one that counts.
    assert (own, files, cwd, said, pid) == ("yes", 4, str(ROOT), "hello", child.pid)
    assert child.wait(60) == 0
    child.kill9()
    assert "wrong" in child.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_it_is_frozen_thawed_and_ended_by_signals_as_any_process(zygote, tmp_path, number):
    child = shell("print('up', flush=True); import time; time.sleep(600)", tmp_path)
    child.wait_for_line("^up$", timeout=60)
    child.freeze()
    child.thaw()
    assert child.exit_code is None
    child._process.send_signal(number)
    assert child.wait(60) == -number
    child.kill9()


def test_a_sentence_and_a_code_are_its_last_words(zygote, tmp_path):
    child = shell("import sys; sys.exit('no room')", tmp_path)
    assert child.wait(60) == 1
    child.kill9()
    assert child.log().endswith("no room\n")


def test_none_outlives_the_process_that_bore_it(tmp_path):
    if sys.platform != "linux":
        pytest.skip("only Linux forks them")
    with forking() as made:
        child = shell("print('up', flush=True); import time; time.sleep(600)", tmp_path)
        child.wait_for_line("^up$", timeout=60)
    assert made._process.returncode == 0
    assert child.wait(60) == -signal.SIGKILL
    end = time.monotonic() + 20
    while psutil.pid_exists(child.pid):
        assert time.monotonic() < end
        time.sleep(0.01)
    child.kill9()


def test_what_random_numbers_say_is_not_the_same_in_all_of_them(zygote, tmp_path):
    env = clean_env(PDCP_DATA_DIR=tmp_path, PDCP_ENV_FILE="/dev/null")
    code = "import random, tempfile, uuid; print(random.random(), uuid.uuid4(), tempfile.mktemp())"
    said = [manage(*SHELL, code, env=env).stdout.split() for _ in range(2)]
    assert all(one != other for one, other in zip(*said, strict=True))


def test_a_web_process_listens_where_its_environment_says_and_ends_well(zygote, sqlite_backend, tmp_path):
    web = Web(sqlite_backend.env, log=tmp_path / "web").start()
    try:
        assert f"http://127.0.0.1:{web.port}" in web.child.lines[0]
    finally:
        assert web.terminate() == 0
