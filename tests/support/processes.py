"""Processes under test: started, read, frozen, killed, and started again on the same data and ports."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from tests.support.forking import Forked, Zygote
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
# Knobs of the shell that runs the tests must not reach the processes under test.
_OWN_KNOBS = re.compile(
    r"PDCP_|PD_LAUNCH_TOKEN$|DATABASE_URL$|REDIS_URL$|SECRET_KEY|DEBUG$|LOG_|DJANGO_|ALLOWED_HOSTS$|CSRF_"
)
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1

zygote: Zygote | None = None
"""Bears our commands while it is there."""


class NotReady(AssertionError):
    """A process ended, or said nothing in time; the message carries the end of its log."""


def clean_env(**knobs: object) -> dict[str, str]:
    """The environment of this test run without our own knobs, plus `knobs`; None leaves one out.

    A launch token too: the SDK leaves one for children as soon as a test of this process has minted it.
    """
    env = {name: value for name, value in os.environ.items() if not _OWN_KNOBS.match(name)}
    env.update({"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "SECRET_KEY": "only-for-tests" * 4})
    for name, value in knobs.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def freeze(pid: int, *, within: float = 20) -> None:
    """SIGSTOP, and wait until it has taken effect: the signal only asks, and threads run on for a while."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + within
    while set(states := _states(pid)) != {"T"}:
        if not states or time.monotonic() > end:
            raise NotReady(f"process {pid} did not stop within {within} s; its threads are {states}")
        time.sleep(0.002)


def _states(pid: int) -> list[str]:
    """One letter a thread that still exists, as the kernel shows it; elsewhere than on Linux one of the process."""
    tasks = Path("/proc") / str(pid) / "task"
    if not Path("/proc/self/task").is_dir():
        return ["T" if psutil.Process(pid).status() == psutil.STATUS_STOPPED else "R"]
    states = []
    for stat in tasks.glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The name before it is in parentheses, and may hold some itself.
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return states


def manage(*arguments: str, env: Mapping[str, str], timeout: float = 90) -> subprocess.CompletedProcess[str]:
    """Run one `manage.py` command to its end; the caller judges the exit code."""
    argv = [sys.executable, "manage.py", *arguments]
    if zygote is not None and zygote.can(argv, env):
        return zygote.run(argv, env=env, timeout=timeout)
    return subprocess.run(argv, cwd=ROOT, env=dict(env), capture_output=True, text=True, timeout=timeout)


class Child:
    """One started process. Its stdout is kept as lines, stdout and stderr together go to a log file.

    Start children from the main thread: on Linux they die with the thread that started them.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        user: int | None = None,
        stdin: bool = False,
        dies_by: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.argv, self.log_path = list(argv), log
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._log = log.open("ab", buffering=0)
        self._process: subprocess.Popen[bytes] | Forked
        if zygote is not None and user is None and zygote.can(argv, env):
            self._process = zygote.start(argv, env=env, stderr=self._log.fileno(), stdin=stdin, dies_by=dies_by)
        else:
            self._process = subprocess.Popen(
                self.argv,
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                user=user,
                preexec_fn=die_with_parent(dies_by),
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def wait_for_line(self, pattern: str, *, timeout: float, after: int = 0) -> re.Match[str]:
        """The first stdout line from index `after` on that matches, or NotReady."""
        end = time.monotonic() + timeout
        with self._changed:
            while True:
                for line in self.lines[after:]:
                    if found := re.search(pattern, line):
                        return found
                if not self._reader.is_alive():
                    raise NotReady(f"{self._name} ended with {self.wait(20)} before /{pattern}/{self._tail()}")
                left = end - time.monotonic()
                if left <= 0:
                    raise NotReady(f"{self._name} did not print /{pattern}/ in {timeout} s{self._tail()}")
                self._changed.wait(min(left, 0.2))

    def wait(self, timeout: float) -> int:
        return self._process.wait(timeout)

    def kill9(self) -> None:
        """No clean-up, no flush: what is lost now was never safe. Works on a frozen process too."""
        if self.exit_code is None:
            self._process.kill()
        self._close()

    def terminate(self, timeout: float = 30) -> int:
        """SIGTERM, and the exit code; a process that does not obey is killed and fails the test."""
        if self.exit_code is None:
            self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise NotReady(f"{self._name} ignored SIGTERM for {timeout} s{self._tail()}") from None
        return self._close()

    def freeze(self) -> None:
        """It does nothing more from the moment that this returns."""
        freeze(self.pid)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def _name(self) -> str:
        return " ".join(Path(part).name for part in self.argv[:4])

    def _tail(self) -> str:
        return "\n--- its log ends with ---\n" + self.log()[-4000:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self._log.write(raw)
            with self._changed:
                self.lines.append(raw.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()

    def _close(self) -> int:
        code = self._process.wait(30)
        self._reader.join(5)
        # A grandchild that outlived it still holds the pipe: closing it would wait for the reader, and that for ever.
        stdout = None if self._reader.is_alive() else self._process.stdout
        for stream in (self._process.stdin, stdout, self._log):
            if stream is not None:
                stream.close()
        return code


class Bootstrap:
    """`manage.py bootstrap` on a database of its own, with ports that stay the same over restarts.

    `knobs` are environment variables, e.g. `PDCP_PROBE_INTERVAL_SECONDS=0`.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        log: Path,
        kv_port: int | None = None,
        engine_port: int | None = None,
        **knobs: object,
    ) -> None:
        self.host = "127.0.0.1"
        self.kv_port = kv_port or free_port()
        self.engine_port = engine_port or free_port()
        self.env = {
            **env,
            "PDCP_BOOTSTRAP_HOST": self.host,
            "PDCP_KV_PORT": str(self.kv_port),
            "PDCP_ENGINE_INFO_PORT": str(self.engine_port),
            **{name: str(value) for name, value in knobs.items()},
        }
        self.log_path = log
        self._child: Child | None = None

    @property
    def kv_url(self) -> str:
        return f"http://{self.host}:{self.kv_port}"

    @property
    def engine_url(self) -> str:
        return f"http://{self.host}:{self.engine_port}"

    @property
    def started(self) -> bool:
        return self._child is not None

    @property
    def child(self) -> Child:
        assert self._child is not None, "not started yet"
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    def launch(self) -> "Bootstrap":
        """Start it and return at once; a second process on one database will stand by."""
        command = [sys.executable, "manage.py", "bootstrap"]
        self._child = Child(command, env=self.env, log=self.log_path)
        return self

    def start(self, *, within: float = 60) -> "Bootstrap":
        self.launch()
        return self.wait_ready(within=within)

    def wait_ready(self, *, within: float = 60) -> "Bootstrap":
        """Until its ready line, which must name the ports that were asked for."""
        ready = self.child.wait_for_line(r"^bootstrap ready kv=(\S+) engine=(\S+) pid=(\d+)$", timeout=within)
        asked = (f"{self.host}:{self.kv_port}", f"{self.host}:{self.engine_port}", str(self.pid))
        assert ready.groups() == asked, f"the ready line says {ready.group()!r}, asked was {asked}"
        return self

    def wait_standing_by(self, *, within: float = 60) -> "Bootstrap":
        self.child.wait_for_line(r"^bootstrap standing by pid=\d+$", timeout=within)
        return self

    def restart(self, *, within: float = 60) -> "Bootstrap":
        """Kill -9, then start again on the same data and ports."""
        self.kill9()
        return self.start(within=within)

    def kill9(self) -> None:
        self.child.kill9()

    def terminate(self, timeout: float = 30) -> int:
        return self.child.terminate(timeout)

    def freeze(self) -> None:
        self.child.freeze()

    def thaw(self) -> None:
        self.child.thaw()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


def die_with_parent(by: signal.Signals) -> Callable[[], None] | None:
    """A killed test run must not leave its servers behind (Linux only)."""
    if _libc is None:
        return None
    libc = _libc
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, int(by))
