"""The fixtures themselves: what everybody's tests stand on."""

import socket
import sys
import time

import psutil
import psycopg
import pytest

from tests.support.plugin import Backend
from tests.support.ports import free_port, is_open
from tests.support.processes import Child, NotReady, clean_env, freeze

ECHO = "import sys\nprint('up', flush=True)\nfor line in sys.stdin: print('heard', line, end='', flush=True)"


@pytest.fixture
def child(tmp_path):
    started = Child([sys.executable, "-c", ECHO], env=clean_env(), log=tmp_path / "log", stdin=True)
    yield started
    started.kill9()


def test_a_free_port_is_free_and_is_given_once():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    with socket.create_server(("127.0.0.1", ports[0])):
        assert is_open(ports[0])
    assert not is_open(ports[1])


def test_a_child_is_heard_line_by_line_and_logged(child):
    child.wait_for_line("^up$", timeout=20)
    child.say("hello")
    assert child.wait_for_line("^heard (.*)", timeout=20).group(1) == "hello"
    assert "heard hello" in child.log()


def test_a_frozen_child_says_nothing_until_it_thaws(child):
    child.wait_for_line("^up$", timeout=20)
    child.freeze()
    child.say("late")
    with pytest.raises(NotReady, match="did not print"):
        child.wait_for_line("^heard late", timeout=0.2)
    child.thaw()
    child.wait_for_line("^heard late", timeout=20)


def test_a_process_with_several_threads_is_frozen_when_all_of_them_are(tmp_path):
    busy = "import threading\ndef busy():\n    while True: pass\n"
    code = busy + "for _ in range(8): threading.Thread(target=busy).start()\nprint('up', flush=True)"
    child = Child([sys.executable, "-c", code], env=clean_env(), log=tmp_path / "log")
    try:
        child.wait_for_line("^up$", timeout=20)
        freeze(child.pid)
        used = psutil.Process(child.pid).cpu_times()
        time.sleep(0.2)
        assert psutil.Process(child.pid).cpu_times() == used
    finally:
        child.kill9()


def test_a_frozen_child_is_awaited_and_a_dead_one_is_not(child):
    child.kill9()
    with pytest.raises(ProcessLookupError):
        freeze(child.pid)


def test_a_child_that_ends_early_is_reported_with_its_log(tmp_path):
    child = Child([sys.executable, "-c", "raise SystemExit('no room')"], env=clean_env(), log=tmp_path / "log")
    begun = time.monotonic()
    with pytest.raises(NotReady, match=r"(?s)ended with 1 before.*no room"):
        child.wait_for_line("ready", timeout=30)
    assert time.monotonic() - begun < 20


def test_knobs_of_the_shell_do_not_reach_a_process_under_test(monkeypatch):
    monkeypatch.setenv("PDCP_KV_PORT", "8998")
    monkeypatch.setenv("DATABASE_URL", "postgresql://somewhere-precious/")
    env = clean_env(PDCP_DATA_DIR="/tmp/x", REDIS_URL=None)
    assert env["PDCP_DATA_DIR"] == "/tmp/x"
    assert {"PDCP_KV_PORT", "DATABASE_URL", "REDIS_URL"}.isdisjoint(env)


def test_every_database_is_new_and_syncs_to_disk(postgres_server):
    first, second = postgres_server.create_database(), postgres_server.create_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE only_here (x int)")
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    copy = postgres_server.create_database(template=first)
    for url, expected in ((copy, 1), (second, 0)):
        with psycopg.connect(url) as connection:
            tables = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'")
            assert tables.fetchone() == (expected,)
    for url in (copy, second, first):
        postgres_server.drop_database(url)


def test_a_backend_is_migrated_and_its_own(backend: Backend):
    assert backend.data_dir.is_dir()
    assert (backend.database_url is None) == (backend.kind == "sqlite")
    assert ("DATABASE_URL" in backend.env) == (backend.kind == "postgresql")
