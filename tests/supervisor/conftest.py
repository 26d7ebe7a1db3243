"""`manage.py up` under test: started with or without a terminal, read, signalled, searched for leftovers."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from controlplane.supervisor import embedded_redis
from tests.support.ports import free_port, is_open
from tests.support.processes import ROOT, clean_env

# A first answer may have to wait for other work on the machine.
get = partial(httpx.get, timeout=30)
READY = re.compile(r"PD control plane is ready \((?P<seconds>[\d.]+) s\)")


def runs(process: psutil.Process) -> bool:
    """Whether it still runs; one that ended and waits for init to take note of it (a zombie) does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_of(process: psutil.Process) -> str:
    """Its command line; nothing of one that ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class Up:
    """One run of `manage.py up` on a data directory and ports of its own."""

    def __init__(self, data_dir: Path, *, tty: bool = False, behind: str = "", **knobs: object) -> None:
        """`behind`: start it through a parent that only waits, as make does, and signal that one."""
        self.run_dir = Path(tempfile.mkdtemp(prefix="pd-t-"))
        self.ports = {name: free_port() for name in ("PDCP_WEB_PORT", "PDCP_KV_PORT", "PDCP_ENGINE_INFO_PORT")}
        self.env = clean_env(
            PDCP_DATA_DIR=data_dir,
            PDCP_ENV_FILE="/dev/null",
            XDG_RUNTIME_DIR=self.run_dir,
            **{**self.ports, **knobs},
        )
        self.lines: list[str] = []
        self._arrived = threading.Condition()
        self._family: dict[int, psutil.Process] = {}
        argv = [sys.executable, str(ROOT / "manage.py"), "up"]
        if behind:
            argv = ["sh", "-c", '"$@"; exit $?', behind, *argv, "--end-with-parent"]
        out: int = subprocess.PIPE
        if tty:
            ours, out = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            env=self.env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if tty:
            os.close(out)
            stream = os.fdopen(ours, "rb", buffering=0)
        else:
            assert self.process.stdout is not None
            stream = self.process.stdout
        self._reader = threading.Thread(target=self._read, args=[stream], daemon=True)
        self._reader.start()

    def _read(self, stream) -> None:
        try:
            for line in stream:
                with self._arrived:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\r\n"))
                    self._arrived.notify_all()
        except OSError:
            pass  # a pseudo-terminal ends like this

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.ports['PDCP_WEB_PORT']}"

    def wait_for(self, pattern: str | re.Pattern[str], seconds: float = 80.0) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        with self._arrived:
            while True:
                for line in self.lines:
                    found = re.search(pattern, line)
                    if found:
                        return found
                left = deadline - time.monotonic()
                # While somebody reads, there may be lines to come, even of a process that ended.
                if left <= 0 or not self._reader.is_alive():
                    raise AssertionError(f"{pattern!r} was never said; instead:\n{self.output}")
                self._arrived.wait(min(left, 0.5))

    def wait_ready(self) -> "Up":
        self.wait_for(READY)
        # The last line of the announcement, so that all of it is there.
        self.wait_for("Ctrl-C stops everything")
        return self

    def family(self) -> list[psutil.Process]:
        """Everything that runs below the supervisor now; remembered for `survivors`."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            self._family[process.pid] = process
        return list(self._family.values())

    def child(self, words: str) -> psutil.Process:
        for process in psutil.Process(self.process.pid).children():
            if words in command_of(process):
                return process
        raise AssertionError(f"no child runs {words!r}")

    def survivors(self, within: float) -> list[str]:
        """Which of the family still run after so many seconds."""
        deadline = time.monotonic() + within
        while (alive := [p for p in self._family.values() if runs(p)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [command_of(process) or f"pid {process.pid}" for process in alive if runs(process)]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code. Of one that ended by itself everything that it said has been read."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.output}") from None
        if code >= 0:
            self._reader.join(10)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.family()
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for process in self._family.values():
            if runs(process):
                process.kill()
        shutil.rmtree(self.run_dir, ignore_errors=True)


@pytest.fixture
def up(tmp_path: Path, sqlite_template: Path) -> Iterator[Callable[..., Up]]:
    """`up()` -> an Up that was started; `up(tty=True, PDCP_X=…)`. `first`: there is nothing yet, not even tables."""
    runs: list[Up] = []

    def start(*, tty: bool = False, behind: str = "", first: bool = False, **knobs: object) -> Up:
        if not first and not (tmp_path / "data").exists():
            shutil.copytree(sqlite_template, tmp_path / "data")
        runs.append(Up(tmp_path / "data", tty=tty, behind=behind, **knobs))
        return runs[-1]

    yield start
    for run in runs:
        run.close()
        print(f"--- manage.py up ---\n{run.output[-10000:]}")


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis that is not ours to start or stop, on a TCP port as in production."""
    port = free_port()
    server = subprocess.Popen(
        [embedded_redis.find_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    while not is_open(port):
        assert server.poll() is None
        time.sleep(0.02)
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait()
