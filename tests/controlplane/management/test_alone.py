"""Commands without a bootstrap process: exit codes, text and JSON, terminals, and databases that are not there."""

import json
import os
import pty
import re
import subprocess
import sys
import time
import types

import psycopg

from controlplane.management import operating
from tests.support.plugin import Backend
from tests.support.postgres import PostgresServer
from tests.support.processes import ROOT, Child, clean_env, manage

ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def test_an_empty_fleet_is_nothing_found_and_says_what_to_do(alone):
    done = alone.run("fleet")
    assert done.returncode == 1
    assert done.stdout.startswith("There is no instance yet")
    assert "start `manage.py bootstrap`" in done.stdout
    assert alone.json("fleet")[1]["instances"] == []
    assert alone.run("events").returncode == 1
    assert alone.run("fleet", "ghost").stderr == "error: no instance is named ghost\n"


def test_instances_are_added_edited_listed_and_retired(alone):
    run = alone.run
    assert run("instances", "list").returncode == 1
    added = run("instances", "add", "a", "--role", "seed", "--own-port", "9101", "--reason", "first")
    assert (added.returncode, added.stdout) == (0, "a was added as seed, reached by port 9101.\n")
    assert run("instances", "add", "a").returncode == 1
    assert "port 910 and 9101 (a) begin alike" in run("instances", "add", "b", "--own-port", "910").stderr
    edited = run("instances", "edit", "a", "--no-own-port", "--host-alias", "a.example")
    assert edited.stdout == "a was changed, reached by the name a.example.\n"
    assert run("instances", "retire", "b").returncode == 0
    header, *lines = run("instances", "list").stdout.splitlines()
    assert header.split() == ["NAME", "ROLE", "INTENT", "STATE", "RANKS", "PORT", "ALIAS", "ADDED"]
    assert lines[0].split()[:7] == ["a", "seed", "enabled", "empty", "-", "-", "a.example"]
    assert lines[1].split()[:3] == ["b", "prefill", "retired"]
    code, events = alone.json("events", "--kind", "instance.added")
    assert (code, [event["reason"] for event in events]) == (0, ["first", ""])
    assert events[0]["actor"] == operating.os_user()
    assert "b" not in [i["name"] for i in alone.json("fleet")[1]["instances"]]
    assert "b" in [i["name"] for i in alone.json("fleet", "--all")[1]["instances"]]


WRONG_USAGE = [
    (("rooms", "find", "many"), "invalid int value"),
    (("rooms", "find", "-1"), "a room is between"),
    (("instances", "add", "two words"), "an instance name has"),
    (("instances", "edit", "a", "--own-port", "1", "--no-own-port"), "not allowed with"),
    (("request", "explode", "a"), "invalid choice"),
    (("request", "evict", "a", "--slot", "tp1.tp2"), "is not a slot such as dp0.cp0.tp1.pp0"),
    (("request", "evict", "a", "--wait", "nan"), "--wait is a number of seconds"),
    (("events", "--kind", "weather"), "there is no kind 'weather'"),
    (("events", "--limit", "-1"), "--limit cannot be negative"),
]


def test_wrong_usage_exits_with_2_and_a_sentence(alone):
    for arguments, sentence in WRONG_USAGE:
        done = alone.run(*arguments)
        assert done.returncode == 2
        assert sentence in done.stderr and "Traceback" not in done.stderr


def test_what_no_database_takes_is_a_sentence_too(alone):
    for arguments in (["fleet", "a\udcff"], ["drain", "\udcff"], ["events", "--limit", "9" * 20]):
        done = alone.run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith("error: "), arguments


def test_a_request_that_nobody_answers_stays_and_says_that_nobody_leads(alone):
    alone.run("instances", "add", "a")
    done = alone.run("request", "evict", "a", "--wait", "0.2")
    assert done.returncode == 1
    assert "Request 1 was not answered within 0.2 s; it stays in the inbox" in done.stdout
    assert "No bootstrap process has ever led here" in done.stdout
    assert alone.json("request", "evict", "a", "--wait", "0")[1] == {
        "request": 2,
        "kind": "evict",
        "instance": "a",
        "slot": None,
        "answered": False,
        "granted": None,
        "answer": None,
    }


def test_a_database_that_is_not_there_exits_with_3_and_does_not_tell_its_password(tmp_path):
    env = clean_env(PDCP_DATA_DIR=tmp_path, PDCP_ENV_FILE="/dev/null")
    done = manage("fleet", env=env)
    assert done.returncode == 3
    assert "run `manage.py migrate_all`" in done.stderr and done.stdout == ""
    away = {**env, "DATABASE_URL": "postgres://anna:hunter2@127.0.0.1:1/pd"}
    for command in (
        ["fleet"],
        ["instances", "add", "a"],
        ["rooms", "find", "1"],
    ):
        done = manage(*command, env=away)
        assert done.returncode == 3, command
        assert "cannot reach the database pd on 127.0.0.1:1" in done.stderr
        assert "hunter2" not in done.stderr and "Traceback" not in done.stderr


def on_terminal(*arguments: str, env: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "manage.py", *arguments]
    process = subprocess.Popen(argv, cwd=ROOT, env={**env, "COLUMNS": "200", "TERM": "xterm"}, stdout=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:
        pass  # a pseudo-terminal ends like this
    process.wait()
    os.close(ours)
    return said.decode()


def test_a_terminal_gets_a_drawn_table_and_no_color_means_none(sqlite_env):
    assert manage("instances", "add", "a", env=sqlite_env).returncode == 0
    drawn = on_terminal("fleet", env=sqlite_env)
    assert "───" in drawn and ESCAPE.search(drawn)
    plain = on_terminal("fleet", env={**sqlite_env, "NO_COLOR": "1"})
    assert "───" in plain and not ESCAPE.search(plain)
    assert not ESCAPE.search(manage("fleet", env=sqlite_env).stdout)


def test_what_others_wrote_cannot_move_the_cursor(alone):
    alone.run("instances", "add", "a", "--reason", "\x1b[2J\x1b[31mred\nnext line")
    told = alone.run("events").stdout
    assert "\x1b[2J" not in told and "\x1b[31m" not in told
    assert r"\x1b[2J" in told and r"red\nnext" in told


def test_a_follower_ends_quietly_when_nobody_reads_it_any_more(sqlite_env):
    assert manage("instances", "add", "a", env=sqlite_env).returncode == 0
    argv = [sys.executable, "manage.py", "events", "--follow", "--json", "--after", "0"]
    follower = subprocess.Popen(
        argv, cwd=ROOT, env=sqlite_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert '"instance": "a"' in follower.stdout.readline()
        follower.stdout.close()
        assert follower.wait(40) == 0
        assert follower.stderr.read() == ""
    finally:
        follower.kill()
        follower.stderr.close()


def test_following_survives_a_database_that_goes_and_comes_back(postgresql_backend: Backend, postgres_server, tmp_path):
    env = postgresql_backend.env
    argv = [sys.executable, "manage.py", "events", "--follow", "--json", "--after", "0"]
    assert manage("instances", "add", "a", env=env).returncode == 0
    follower = Child(argv, env=env, log=tmp_path / "follow.log")
    try:
        follower.wait_for_line('"instance": "a"', timeout=40)
        with closed_to_all(postgres_server, postgresql_backend):
            wait_for(lambda: "going on as soon as it answers" in follower.log())
        wait_for(lambda: "the database answers again" in follower.log())
        assert manage("instances", "add", "b", env=env).returncode == 0
        follower.wait_for_line('"instance": "b"', timeout=40)
        revisions = [json.loads(line)["revision"] for line in follower.lines]
        assert revisions == [1, 2]
    finally:
        follower.kill9()


def closed_to_all(server: PostgresServer, backend: Backend):
    """For a while the database has no connections and takes none, as during a restart."""
    import contextlib

    assert backend.database_url is not None
    name = backend.database_url.rsplit("/", 1)[1]

    @contextlib.contextmanager
    def closed():
        with psycopg.connect(server._admin_url, autocommit=True) as admin:
            admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            try:
                yield
            finally:
                admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')

    return closed()


def wait_for(holds, within: float = 40) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_actor_is_the_user_of_the_shell_and_behind_sudo_the_one_who_called(monkeypatch):
    monkeypatch.setattr(operating.pwd, "getpwuid", lambda uid: types.SimpleNamespace(pw_name="root"))
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert operating.os_user() == "root"
    monkeypatch.setattr(operating.os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "anna")
    assert operating.os_user() == "anna"
    monkeypatch.setattr(operating.os, "getuid", lambda: 1000)
    assert operating.os_user() == "root"
