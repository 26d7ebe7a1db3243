"""The processes of a demo: started, read, signalled, ended; none of them outlives it, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from controlplane.supervisor.children import Child, Recipe, start
from controlplane.supervisor.guard import Guard

READY_SECONDS = 120.0
AGAIN_SECONDS = 3.0
"""Who ends without having been asked is started again after so long."""


class Ended(Exception):
    """A process ended, or said nothing in time: a sentence with the end of its log."""


class Crew:
    """Use it from the main thread, inside a running loop. `logs`: a directory, one file a process. `on_line`: what a process says
    on stdout."""

    def __init__(
        self,
        *,
        cwd: Path,
        env: Mapping[str, str],
        logs: Path,
        guard: Guard,
        say: Callable[[str], None],
        on_line: Callable[[str, str], None] = lambda name, line: None,
    ) -> None:
        self._cwd, self._env, self._logs, self._guard, self._say, self._on_line = cwd, env, logs, guard, say, on_line
        self._children: dict[str, Child] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._lost: dict[str, tuple[Recipe, float]] = {}
        self._expected: set[str] = set()

    def start(self, recipe: Recipe) -> None:
        """Comes back at once; from now on it is started again when it ends by itself."""
        name = recipe.name
        assert name not in self._children, f"{name} runs already"
        log = self._files[name] = (self._logs / f"{name}.log").open("ab", buffering=0)
        child = self._children[name] = start(recipe, env=self._env, cwd=self._cwd, stderr=log)
        self._guard.began(child.pid)
        self._expected.add(name)
        asyncio.get_running_loop().add_reader(child.fileno(), self._read, child)

    async def ready(self, name: str, *, within: float = READY_SECONDS) -> None:
        """Until it has said so. Raises Ended."""
        end = time.monotonic() + within
        child = self._children[name]
        while not child.ready:
            if child.process.poll() is not None:
                self._read(child)
                if not child.ready:
                    raise Ended(f"{name} could not start (exit {child.process.returncode}).\n{self.tail(name)}")
            if time.monotonic() > end:
                raise Ended(f"{name} was not ready within {within:g} s.\n{self.tail(name)}")
            await asyncio.sleep(0.05)

    def runs(self, name: str) -> bool:
        child = self._children.get(name)
        return child is not None and child.process.poll() is None

    def is_ready(self, name: str) -> bool:
        """It runs, and has said so."""
        return self.runs(name) and self._children[name].ready

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def signal(self, name: str, number: int) -> None:
        """To the process alone."""
        os.kill(self._children[name].pid, number)

    def kill(self, name: str) -> None:
        """SIGKILL, to it and to what it started; it is not started again by itself."""
        self._expected.discard(name)
        self._bury(self._children[name])

    async def end(self, name: str) -> None:
        """SIGTERM, and SIGKILL when it has not ended within its grace."""
        self._expected.discard(name)
        child = self._children.get(name)
        if child is None:
            return
        child.ask_to_stop()
        # One that was stopped hears nothing.
        if child.process.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
        end = time.monotonic() + child.recipe.grace_seconds
        while child.process.poll() is None and time.monotonic() < end:
            await asyncio.sleep(0.05)
        self._bury(child)

    async def end_all(self, *, last: str) -> None:
        """All together, and `last` when they have ended."""
        self._lost.clear()
        await asyncio.gather(*(self.end(name) for name in list(self._children) if name != last))
        await self.end(last)

    def kill_all(self) -> None:
        self._lost.clear()
        for child in list(self._children.values()):
            self._bury(child)

    def look_after(self) -> None:
        """Say who ended without having been asked, and start them again a little later; call it now and then."""
        now = time.monotonic()
        for name, child in list(self._children.items()):
            if name in self._expected and child.process.poll() is not None:
                self._say(f"{name} ended by itself (exit {child.process.returncode}); it is started again")
                self._bury(child)
                self._lost[name] = (child.recipe, now + AGAIN_SECONDS)
        for name, (recipe, due) in list(self._lost.items()):
            if now >= due:
                del self._lost[name]
                if name not in self._children:
                    self.start(recipe)

    def tail(self, name: str, lines: int = 20) -> str:
        try:
            text = (self._logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])

    def _read(self, child: Child) -> None:
        lines = child.read_lines()
        if lines is None:
            asyncio.get_running_loop().remove_reader(child.fileno())
            return
        for line in lines:
            file = self._files.get(child.name)
            if file is not None:
                file.write(line.encode() + b"\n")
            self._on_line(child.name, line)

    def _bury(self, child: Child) -> None:
        child.kill_group()
        child.process.wait()
        if child.process.stdout is not None and not child.process.stdout.closed:
            asyncio.get_running_loop().remove_reader(child.fileno())
            child.process.stdout.close()
        self._children.pop(child.name, None)
        file = self._files.pop(child.name, None)
        if file is not None:
            file.close()
        self._guard.ended(child.pid)
