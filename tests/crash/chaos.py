"""Every process of `manage.py up` is killed in random order while workers and operators write; a model of its own judges."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.crash.audit import audit
from tests.crash.book import Book
from tests.crash.storm import Storm
from tests.supervisor.conftest import Up
from tests.support.operator import make_token
from tests.support.plugin import Backend
from tests.support.processes import manage
from tests.wire.operators import rows

PARTS = {
    "bootstrap": "manage.py bootstrap",
    "web": "manage.py web",
    "worker": "celery",
    "redis": "-server",
}
VICTIMS = (*PARTS, "beat")
STEERED = ("steered-1", "steered-2")
ACTS = {"cordon": "cordoned", "uncordon": "enabled"}
OFTEN_SECONDS, LEAST_TASKS = 10.0, 5
"""Tasks that run at least so often have to go on soon after the last disaster; there are so many of them, and more."""

FROZEN_SECONDS = 5.0
PATIENCE_SECONDS = 90.0
ROUNDS = "SELECT task, every_seconds, done, ended_at, outcome, error FROM controlplane_taskround"
INTENTS = "SELECT name, intent FROM controlplane_instance WHERE name LIKE 'steered-%'"


class Chaos:
    """One control plane, the clients of a storm, two operators, and dice."""

    def __init__(self, up: Up, data_dir: Path, *, seed: int) -> None:
        self.up = up
        self.backend = Backend("sqlite", data_dir)
        self.dice = random.Random(seed)
        self.storm = Storm(up.ports["PDCP_KV_PORT"], up.ports["PDCP_ENGINE_INFO_PORT"], seed=seed, patient=True)
        self.steering = Book()
        self.happened: Counter[str] = Counter()
        self._deck: list[str] = []
        self._frozen: list[psutil.Process] = []
        self._calm_since = 0.0
        self._token = make_token(up.env, "chaos", "read", "operate")
        for name in STEERED:
            added = manage("instances", "add", name, env=up.env)
            assert added.returncode == 0, added.stderr

    async def rage(
        self, seconds: float, *, strike: Callable[[], None], every: tuple[float, float] = (1.0, 4.0)
    ) -> None:
        """Everybody works for so long, and every few seconds somebody is struck."""
        steering = [asyncio.create_task(self._steer(name)) for name in STEERED]
        striking = asyncio.create_task(self._strike_again_and_again(strike, every))
        try:
            await self.storm.blow(seconds, striking.cancel, after=1.0)
        finally:
            self._thaw()
            for task in (*steering, striking):
                task.cancel()
            ended = await asyncio.gather(*steering, striking, return_exceptions=True)
        for problem in ended:
            if isinstance(problem, Exception):
                raise problem

    async def _strike_again_and_again(self, strike: Callable[[], None], every: tuple[float, float]) -> None:
        while True:
            await asyncio.sleep(self.dice.uniform(*every))
            strike()

    def kill(self) -> None:
        """SIGKILL for the next one. Everybody has a turn before anybody has another; who is just being started waits."""
        if not self._deck:
            self._deck = self.dice.sample(VICTIMS, len(VICTIMS))
        for part in list(self._deck):
            victim = self.find(part)
            if victim is not None:
                self._deck.remove(part)
                victim.kill()
                self.happened[f"{part} killed"] += 1
                return

    def disaster(self) -> None:
        """Any one of what can happen to a process."""
        if self.dice.random() < 0.1:
            for part in PARTS:
                self._hit(part, "killed")
        else:
            self._hit(self.dice.choice(VICTIMS), self.dice.choice(("killed", "killed", "terminated", "frozen")))

    def _hit(self, part: str, how: str) -> None:
        victim = self.find(part)
        if victim is None:
            return
        self.happened[f"{part} {how}"] += 1
        with contextlib.suppress(psutil.NoSuchProcess):
            if how == "killed":
                victim.kill()
            elif how == "terminated":
                victim.terminate()
            else:
                victim.suspend()
                self._frozen.append(victim)
                asyncio.get_running_loop().call_later(self.dice.uniform(1.0, FROZEN_SECONDS), self._thaw)

    def _thaw(self) -> None:
        while self._frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._frozen.pop().resume()

    def find(self, part: str) -> psutil.Process | None:
        try:
            if part != "beat":
                return self.up.child(PARTS[part])
            # Embedded in the worker, as a process of its own.
            below = self.up.child(PARTS["worker"]).children()
            return below[0] if below else None
        except (psutil.NoSuchProcess, AssertionError):
            return None

    async def _steer(self, name: str) -> None:
        """An operator who cordons and uncordons, and notes what was acknowledged."""
        history, dice = self.steering[name], random.Random(name)
        headers = {"authorization": f"Bearer {self._token}"}
        async with httpx.AsyncClient(
            base_url=f"{self.up.web}/api/v1/instances/{name}/", headers=headers, timeout=60, trust_env=False
        ) as web:
            while True:
                for act, intent in ACTS.items():
                    history.send(intent)
                    try:
                        answer = await web.post(act, json={"reason": "because chaos asks"})
                    except httpx.TransportError:
                        # It may have been done, or not.
                        await asyncio.sleep(0.2)
                        continue
                    if answer.status_code == 200:
                        history.acknowledge(intent)
                        self.steering.acknowledged += 1
                    elif answer.status_code not in (409, 503):
                        self.storm.wrong.append(f"{act} of {name} was answered {answer.status_code}: {answer.text}")
                    await asyncio.sleep(dice.uniform(0.0, 0.1))

    # --- Afterwards ---------------------------------------------------------------------------------------------

    async def judge(self) -> list[str]:
        """What is wrong, now that everything has come back and nobody writes."""
        self._calm_since = time.time()
        await self._until(self._web_is_ready, "the web process answers /readyz")
        wrong = self.storm.wrong + await audit(self.storm, self.backend)
        wrong += [
            sentence
            for name, intent in rows(self.backend, INTENTS)
            if (sentence := self.steering.compare(name, intent)) is not None
        ]
        wrong += await self._told_as_it_is()
        await self._until(self._clock_goes_on, "every task that runs often has run again, and well")
        return wrong

    async def _told_as_it_is(self) -> list[str]:
        """The tables and the ledger tell the same fleet."""
        headers = {"authorization": f"Bearer {self._token}"}
        async with httpx.AsyncClient(
            base_url=f"{self.up.web}/api/v1/", headers=headers, timeout=60, trust_env=False
        ) as web:
            now = await web.get("fleet")
            then = await web.get("fleet", params={"as_of": now.json()["cursor"]})
        if then.status_code == 413:
            return []
        if then.status_code != 200 or then.json()["state"] != now.json()["state"]:
            return [f"the tables tell another fleet than the ledger at {now.json()['cursor']} ({then.status_code})"]
        return []

    async def _until(self, true: Callable[[], Any], what: str) -> None:
        """Until `true` says nothing of what is still missing."""
        end = time.monotonic() + PATIENCE_SECONDS
        while missing := await asyncio.to_thread(true):
            assert time.monotonic() < end, f"not within {PATIENCE_SECONDS} s: {what}; {missing}"
            await asyncio.sleep(0.2)

    def _web_is_ready(self) -> str:
        try:
            answer = httpx.get(f"{self.up.web}/readyz", timeout=10, trust_env=False)
        except httpx.TransportError as problem:
            return repr(problem)
        return "" if answer.status_code == 200 else answer.text

    def _clock_goes_on(self) -> list[tuple[Any, ...]]:
        found = [row for row in rows(self.backend, ROUNDS, file="traffic.sqlite3") if row[1] <= OFTEN_SECONDS]
        late = [row for row in found if not row[3] or row[3] < self._calm_since or row[4] != "ok"]
        return late if len(found) >= LEAST_TASKS else [("tasks are missing", *(row[0] for row in found))]
