"""The parts of the supervisor one by one: lock, ports, watchdog, Redis, restart delays."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.supervisor import embedded_redis, lockfile, ports, watchdog
from controlplane.supervisor.children import Recipe, start
from controlplane.supervisor.processes import STOP_ORDER, recipes


def test_a_lock_is_refused_while_its_holder_lives_and_names_it(tmp_path):
    lock = lockfile.take(tmp_path)
    with pytest.raises(lockfile.DirectoryInUse, match=rf"pid {os.getpid()}.*PDCP_DATA_DIR"):
        lockfile.take(tmp_path)
    os.close(lock)
    os.close(lockfile.take(tmp_path))


def test_a_lock_that_outlives_its_taker_is_waited_for(tmp_path):
    # A taker that ends while a helper of its own still holds the descriptor, until somebody opens the FIFO.
    code = (
        "import subprocess, sys; from pathlib import Path; from controlplane.supervisor import lockfile;"
        "lock = lockfile.take(Path(sys.argv[1]));"
        "subprocess.Popen(['sh', '-c', 'read line < $0', sys.argv[2]], pass_fds=[lock])"
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(fifo)], check=True)
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(lockfile.take, tmp_path)
        time.sleep(0.5)
        waited = not taking.done()
        fifo.open("w").close()
        os.close(taking.result(30))
    assert waited


def test_a_taken_port_is_refused_with_port_holder_and_variable():
    taken = ports.listen("127.0.0.1", 0, variable="PDCP_WEB_PORT")
    port = taken.getsockname()[1]
    with pytest.raises(ports.PortTaken) as refusal:
        ports.listen("127.0.0.1", port, variable="PDCP_WEB_PORT")
    taken.close()
    for part in (str(port), "127.0.0.1", "PDCP_WEB_PORT"):
        assert part in str(refusal.value)
    if sys.platform == "linux":
        assert f"pid {os.getpid()}" in str(refusal.value)
    ports.listen("127.0.0.1", port, variable="PDCP_WEB_PORT").close()


def test_an_address_of_another_host_and_a_name_of_none_are_refused_with_a_sentence():
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(ports.PortTaken, match=r"cannot be opened \(.+\); check PDCP_WEB_PORT"):
            ports.listen(host, 0, variable="PDCP_WEB_PORT")


def test_nobody_is_named_for_a_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        assert ports.holder_of(probe.getsockname()[1]) is None


def sleeper(code: str = "") -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nprint(flush=True)\nimport time; time.sleep(600)"],
        process_group=0,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_the_watchdog_ends_what_is_listed_removes_what_is_listed_and_spares_the_rest(tmp_path):
    listed, unlisted = sleeper(), sleeper()
    leftover = tmp_path / "dir" / "socket"
    leftover.parent.mkdir()
    leftover.touch()
    dog = subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__], stdin=subprocess.PIPE)
    lines = f"+{listed.pid}\n+{unlisted.pid}\n-{unlisted.pid}\n~{leftover}\n~{leftover.parent}\n"
    dog.communicate(lines.encode(), timeout=30)
    assert listed.wait(20) == -signal.SIGTERM
    assert unlisted.poll() is None
    assert not leftover.parent.exists()
    unlisted.kill()
    unlisted.wait()


def test_the_watchdog_kills_what_does_not_listen():
    deaf = sleeper("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    dog = subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__], stdin=subprocess.PIPE)
    dog.communicate(f"+{deaf.pid}\n".encode(), timeout=watchdog.GRACE_SECONDS + 30)
    assert deaf.wait(20) == -signal.SIGKILL


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process that was just started has come so far as to ignore a signal."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        time.sleep(1)
        return True
    mask = int(re.search(r"^SigIgn:\s*(\w+)", status.read_text(), re.MULTILINE)[1], 16)
    return bool(mask >> (number - 1) & 1)


def test_the_watchdog_itself_ignores_the_signals_of_a_terminal():
    dog = subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__], stdin=subprocess.PIPE)
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while not all(ignores(dog.pid, number) for number in numbers):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for number in numbers:
        dog.send_signal(number)
    time.sleep(0.2)
    assert dog.poll() is None
    dog.communicate(b"", timeout=30)


def test_a_child_is_ready_when_its_line_says_so_and_keeps_what_the_line_said(tmp_path):
    code = "print('noise'); print('thing ready url=http://x'); import time; time.sleep(600)"
    recipe = Recipe("thing", (sys.executable, "-u", "-c", code), ready=re.compile(r"^thing ready url=(?P<url>\S+)"))
    child = start(recipe, env=os.environ, cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not child.ready and time.monotonic() < deadline:
        child.read_lines()
        time.sleep(0.02)
    assert child.facts == {"url": "http://x"}
    child.ask_to_stop()
    assert child.process.wait(20) == -signal.SIGTERM


def test_restart_delays_grow_to_a_last_one_and_the_bootstrap_process_is_first_restarted_at_once():
    made = {recipe.name: recipe for recipe in recipes(base_dir=Path("/"), log_level="INFO")}
    assert made["bootstrap"].delay(1) == 0
    for recipe in made.values():
        delays = [recipe.delay(deaths) for deaths in range(1, 50)]
        assert delays == sorted(delays)
        assert delays[-1] > 0


def test_every_process_has_a_place_in_the_order_of_stopping_and_redis_is_last():
    names = {recipe.name for recipe in recipes(base_dir=Path("/"), log_level="INFO")}
    assert names | {"redis"} == set(STOP_ORDER)
    assert STOP_ORDER[-1] == "redis"


def test_the_systems_own_redis_is_preferred_to_the_wheels(tmp_path, monkeypatch):
    own = tmp_path / "redis-server"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded_redis.find_binary() == own
    monkeypatch.setenv("PATH", "")
    assert embedded_redis.find_binary().name == "valkey-server"


def test_the_socket_of_the_embedded_redis_is_private_and_short_even_under_a_long_directory(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    redis = embedded_redis.prepare(tmp_path)
    assert len(str(redis.socket)) <= embedded_redis.LONGEST_SOCKET_PATH
    assert redis.socket.parent.stat().st_mode & 0o777 == 0o700
    redis.socket.parent.rmdir()
