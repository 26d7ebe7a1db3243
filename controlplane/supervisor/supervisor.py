"""The loop that starts children, passes on what they say, restarts those that die and stops them in order."""

import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import structlog

from controlplane.supervisor.children import Child, Recipe, start
from controlplane.supervisor.guard import Guard

log = structlog.get_logger("controlplane.supervisor")

# A child that ran this long has proved itself: its next death counts as the first again.
PROVEN_SECONDS = 20.0
STANDING_BY_PATIENCE_SECONDS = 5.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StartFailed(Exception):
    """A child ended, or kept silent, before everything was ready for the first time."""

    def __init__(self, name: str, code: int | None, tail: list[str]) -> None:
        super().__init__(f"{name} was not ready in time" if code is None else f"{name} could not start (exit {code})")
        self.code = code
        self.tail = tail


class Supervisor:
    def __init__(self, *, cwd: Path, guard: Guard, say: Callable[[str], None], parent: int | None = None) -> None:
        """`parent`: the process whose end is to be ours as well; None: nobody's."""
        self._parent = parent
        self._cwd = cwd
        self._guard = guard
        self._say = say
        self._children: dict[str, Child] = {}
        self._recipes: dict[str, tuple[Recipe, Mapping[str, str]]] = {}
        self._deaths: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._settled = False
        self.signals = 0
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._woken = os.pipe()
        for end in (self._wakeup, self._woken):
            os.set_blocking(end, False)
        self._selector.register(self._wakeup, selectors.EVENT_READ)

    def catch_signals(self) -> None:
        """From now on a signal asks for a stop, a second one for haste; a child's death wakes the loop."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in SIGNALS:
            # Under nohup a hang-up is ignored on purpose.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._count_signal)

    def _count_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    @property
    def asked_to_stop(self) -> bool:
        return self.signals > 0 or (self._parent is not None and os.getppid() != self._parent)

    def facts(self, name: str) -> dict[str, str]:
        """What the child's ready line said."""
        child = self._children.get(name)
        return child.facts if child else {}

    def is_ready(self, name: str) -> bool:
        child = self._children.get(name)
        return bool(child and child.ready)

    def start(self, recipe: Recipe, *, env: Mapping[str, str]) -> None:
        self._recipes[recipe.name] = (recipe, env)
        self._start(recipe.name)

    def _start(self, name: str) -> None:
        recipe, env = self._recipes[name]
        child = start(recipe, env=env, cwd=self._cwd)
        self._guard.began(child.pid)
        self._children[name] = child
        self._selector.register(child.fileno(), selectors.EVENT_READ, child)

    def wait_ready(self, *, seconds: float) -> None:
        """Return when every child is ready, or a stop was asked for; StartFailed otherwise."""
        deadline = time.monotonic() + seconds
        while not self.asked_to_stop:
            waiting = [child for child in self._children.values() if not self._at_work(child)]
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise StartFailed(waiting[0].name, None, list(waiting[0].tail))
            self._turn(0.25)

    def _at_work(self, child: Child) -> bool:
        # On a database shared with other hosts one bootstrap process leads, and the others stand by for good.
        patient = time.monotonic() - child.started_at > STANDING_BY_PATIENCE_SECONDS
        return child.ready or (child.standing_by and patient)

    def run(self) -> None:
        """Keep everything running until a signal asks for the end."""
        self._settled = True
        while not self.asked_to_stop:
            self._turn(min([1.0, *(max(0.0, due - time.monotonic()) for due in self._due.values())]))

    def stop(self, order: list[str]) -> None:
        """Stop the named children one after the other; each within its grace, or it is killed. Those that serve on for a
        while are all told at once."""
        self._due.clear()
        patience = self.signals + 1
        began = time.monotonic()
        children = [self._children[name] for name in order if name in self._children]
        for child in children:
            if child.recipe.delay_seconds:
                child.ask_to_stop()
        for child in children:
            if not child.recipe.delay_seconds:
                child.ask_to_stop()
            self._wait_for_end(child, began, patience)
            if child.process.poll() is None:
                log.warning("child killed", child=child.name, reason="it did not stop in time")
            self._bury(child)

    def _wait_for_end(self, child: Child, began: float, patience: int) -> None:
        recipe, hurried = child.recipe, False
        deadline = max(time.monotonic(), began + recipe.delay_seconds) + recipe.grace_seconds
        while child.process.poll() is None and time.monotonic() < deadline and self.signals <= patience:
            self._listen(0.05)
            hasty = self.signals >= patience or not self._settled
            if recipe.delay_seconds and hasty and not hurried:
                hurried, deadline = True, time.monotonic() + recipe.grace_seconds
                child.ask_to_stop()

    def _turn(self, seconds: float) -> None:
        self._listen(seconds)
        for child in list(self._children.values()):
            if child.process.poll() is not None:
                self._died(child)
        for name, due in list(self._due.items()):
            if time.monotonic() >= due and not self.asked_to_stop:
                del self._due[name]
                self._start(name)

    def _listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._drain_wakeups()
            else:
                self._pass_on(key.data)

    def _drain_wakeups(self) -> None:
        try:
            while os.read(self._wakeup, 4096):
                pass
        except BlockingIOError:
            pass

    def _pass_on(self, child: Child) -> None:
        lines = child.read_lines()
        if lines is None:
            self._selector.unregister(child.fileno())
        elif not child.recipe.quiet:
            for line in lines:
                self._say(line)

    def _died(self, child: Child) -> None:
        while child.fileno() in self._selector.get_map() and child.read_lines():
            pass  # its last words
        code = child.process.returncode
        self._bury(child)
        if not self._settled:
            raise StartFailed(child.name, code, list(child.tail) if child.recipe.quiet else [])
        now = time.monotonic()
        proven = now - child.started_at > PROVEN_SECONDS
        deaths = self._deaths[child.name] = 1 if proven else self._deaths.get(child.name, 0) + 1
        delay = child.recipe.delay(deaths)
        self._due[child.name] = now + delay
        log.warning("child died", child=child.name, exit=code, restart_in_seconds=delay)

    def _bury(self, child: Child) -> None:
        child.kill_group()
        child.process.wait()
        if child.fileno() in self._selector.get_map():
            self._selector.unregister(child.fileno())
        if child.process.stdout is not None:
            child.process.stdout.close()
        self._children.pop(child.name, None)
        self._guard.ended(child.pid)
