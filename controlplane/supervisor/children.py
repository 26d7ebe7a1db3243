"""One child process: how it is started, what it says, and how it is ended."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1
# Looked up before any fork: loading a library between fork and exec is not safe.
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to run a child. `ready` is searched for in its lines on stdout; its named groups become `facts`."""

    name: str
    argv: tuple[str, ...]
    ready: re.Pattern[str]
    standing_by: re.Pattern[str] | None = None
    grace_seconds: float = 5.0
    # How long it serves on when it is asked to stop, before its grace begins; asked again, it does not.
    delay_seconds: float = 0.0
    restart_delays: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    quiet: bool = False  # its lines are shown only when it fails

    def delay(self, deaths: int) -> float:
        """Seconds to wait after this many deaths in a row, counted from 1."""
        return self.restart_delays[min(deaths, len(self.restart_delays)) - 1]


@dataclass(slots=True)
class Child:
    recipe: Recipe
    process: subprocess.Popen[bytes]
    started_at: float
    ready: bool = False
    standing_by: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    _partial: bytes = b""

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def pid(self) -> int:
        return self.process.pid

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def read_lines(self) -> list[str] | None:
        """Whole lines that arrived, without waiting; None when the child closed its output."""
        try:
            data = os.read(self.fileno(), 65536)
        except BlockingIOError:
            return []
        if not data:
            return None
        *whole, self._partial = (self._partial + data).split(b"\n")
        lines = [line.decode("utf-8", "replace") for line in whole]
        for line in lines:
            self._listen(line)
        return lines

    def _listen(self, line: str) -> None:
        self.tail.append(line)
        found = self.recipe.ready.search(line)
        if found:
            self.ready, self.standing_by = True, False
            self.facts = found.groupdict()
        elif self.recipe.standing_by and self.recipe.standing_by.search(line):
            self.standing_by = True

    def ask_to_stop(self) -> None:
        # To the child alone: it ends its own children in its own order.
        if self.process.poll() is None:
            self.process.terminate()

    def kill_group(self) -> None:
        """End whatever is left of the child and of what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def start(recipe: Recipe, *, env: Mapping[str, str], cwd: Path, stderr: IO[bytes] | None = None) -> Child:
    """Call this from the main thread: Linux ties the child's life to the thread that made it. `stderr`: where it goes;
    None: where ours goes."""
    process = subprocess.Popen(
        recipe.argv,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        preexec_fn=_die_with_parent(os.getpid()),
        # A group of its own: Ctrl-C reaches the supervisor alone, which stops the others in order.
        process_group=0,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return Child(recipe, process, started_at=time.monotonic())


def _die_with_parent(parent: int):  # type: ignore[no-untyped-def]
    libc = LIBC
    if libc is None:
        return None

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have died between fork and the line above; then no signal will ever come.
        if os.getppid() != parent:
            os._exit(1)

    return tie
