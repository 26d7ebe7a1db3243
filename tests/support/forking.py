"""Start our commands by a fork of a process that has imported everything once (zygote.py): a start costs a hundredth of it.

Tests of whole installations (`manage.py up`, the demo, browsers), soak and measurements execute each process anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"celery", "tests.wire.operators"}
"""Besides manage.py: what a process that has loaded Django can become."""

# The interpreter and the loader read these before any line of ours: who wants others is executed anew.
_EARLY = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ")


class Forked:
    """A child of the zygote: as much of `subprocess.Popen` as tests use."""

    def __init__(self, pid: int, pidfd: int, end: int, stdin: IO[bytes] | None, stdout: IO[bytes] | None) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._pidfd, self._end = pidfd, end
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._end, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        with self._lock:
            if self.returncode is None:
                # Nothing is said by a zygote that was killed itself, and then its children were too.
                self.returncode = int(os.read(self._end, 16) or -signal.SIGKILL)
                os.close(self._end)
                os.close(self._pidfd)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Zygote:
    """Runs until `close`, or until this process ends."""

    def __init__(self, env: Mapping[str, str], preexec_fn: Any) -> None:
        self._env = dict(env)
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.settimeout(90)
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._ready: bool | None = None
        with theirs:
            argv = [sys.executable, "-m", "tests.support.zygote", str(theirs.fileno())]
            self._process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                preexec_fn=preexec_fn,
            )

    def can(self, argv: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether it may bear what is executed like this. Not for a fork of this process, which would talk in between."""
        if argv[0] != sys.executable or not (argv[1] == "manage.py" or (argv[1] == "-m" and argv[2] in MODULES)):
            return False
        return _early(env) == _early(self._env) and os.getpid() == self._owner and self._is_ready()

    def _is_ready(self) -> bool:
        """Waits for its imports; one that could not import something has said so on stderr, and ended."""
        with self._lock:
            if self._ready is None:
                self._ready = self._door.recv(64) == b"ready"
            return self._ready

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stderr: int,
        stdin: bool = False,
        stdout: int | None = None,
        dies_by: int = signal.SIGKILL,
    ) -> Forked:
        """`stdin`: through a pipe, else nothing; `stdout`: a file, else a pipe."""
        theirs = [os.open(os.devnull, os.O_RDONLY)]
        say: IO[bytes] | None = None
        hear: IO[bytes] | None = None
        if stdin:
            os.close(theirs.pop())
            reads, writes = os.pipe()
            theirs, say = [reads], os.fdopen(writes, "wb")
        if stdout is None:
            reads, writes = os.pipe()
            hear = os.fdopen(reads, "rb")
            theirs.append(writes)
        else:
            theirs.append(os.dup(stdout))
        end, ends = os.pipe()
        theirs += [os.dup(stderr), ends]
        asked = {"words": list(argv[1:]), "env": dict(env), "cwd": str(ROOT), "dies_by": int(dies_by)}
        try:
            with self._lock:
                socket.send_fds(self._door, [json.dumps(asked).encode()], theirs)
                said, (pidfd,), *_ = socket.recv_fds(self._door, 64, 1)
        finally:
            for number in theirs:
                os.close(number)
        return Forked(int(said), pidfd, end, say, hear)

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        """To its end, as `subprocess.run` with `capture_output` would."""
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
            process = self.start(argv, env=env, stdout=said.fileno(), stderr=complained.fileno())
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            # Its place in the file is that of the child: they are one.
            said.seek(0)
            complained.seek(0)
            return subprocess.CompletedProcess(list(argv), process.wait(), said.read(), complained.read())

    def close(self) -> None:
        self._door.close()
        self._process.wait(30)


def _early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_EARLY)}
