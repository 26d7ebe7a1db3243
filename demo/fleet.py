"""The whole fleet, up within a block and ended after it: processes, gateway, data; nothing stays."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from controlplane.supervisor.guard import Guard

from .announcing import say
from .api import Api
from .crew import Crew
from .gateway import Gateway
from .places import choose_directory, choose_ports
from .plan import AGENTS, CONTROL_PLANE, GATEWAY, Plan
from .preparing import prepare, write_secret
from .settings import Settings
from .stage import Stage

T = TypeVar("T")
BASE = Path(__file__).resolve().parents[1]
WELL_SECONDS = 60.0
ENOUGH = 2
"""So many requests have ended well when the fleet is said to be up."""
LEADS = re.compile(r"^bootstrap ready .*pid=(\d+)")


class Stopped(Exception):
    """Somebody asked for the end before it was up."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`traffic` runs as long as the fleet; it never ends by itself."""

    stage: Stage
    traffic: asyncio.Task[None]
    directory: Path
    password: str = field(repr=False)


@asynccontextmanager
async def fleet(settings: Settings, stop: asyncio.Event) -> AsyncIterator[Fleet]:
    """Raises Taken, Failed, Ended, Unseen (no request was answered), Stopped."""
    ports = choose_ports(settings.first_port)
    async with AsyncExitStack() as open_:
        directory = open_.enter_context(_directory(settings))
        guard = open_.enter_context(_guarded(directory.lock))
        logs, data, token = (directory.path / name for name in ("logs", "control-plane", "worker-token"))
        for folder in (logs, data):
            folder.mkdir(exist_ok=True, mode=0o700)
        say(f"starting the fleet, in {directory.path} …")
        plan = Plan(base=BASE, data=data, ports=ports, token=token, weights=settings.weights)
        env = plan.env(os.environ)
        made = await unless(stop, prepare(plan, env, settings.weights))
        plan.weights = made.weights
        write_secret(token, made.worker)
        write_secret(directory.path / "password", made.password)
        api = Api(plan.web, made.gateway)
        open_.push_async_callback(api.close)
        urls = {name: plan.url(name) for name in AGENTS}
        log = open_.enter_context((logs / f"{GATEWAY}.log").open("a", encoding="utf-8", buffering=1))

        def note(line: str) -> None:
            log.write(f"{time.strftime('%H:%M:%S')} {line}\n")

        dice = random.Random(settings.seed)
        gateway = Gateway(api, kv=plan.kv, urls=urls, rate=settings.rate, dice=dice, note=note)

        def heard(name: str, line: str) -> None:
            if name == CONTROL_PLANE and (found := LEADS.search(line)):
                stage.directory = int(found[1])

        crew = Crew(cwd=BASE, env=env, logs=logs, guard=guard, say=say, on_line=heard)
        stage = Stage(plan, crew, api, gateway)
        open_.push_async_callback(_end, crew, stop)
        await unless(stop, _come_up(plan, crew))
        traffic = asyncio.create_task(gateway.run())
        open_.push_async_callback(_cancel, traffic, gateway)
        await unless(stop, stage.until(lambda: _flows(gateway), within=WELL_SECONDS))
        yield Fleet(stage, traffic, directory.path, made.password)


async def unless(stop: asyncio.Event, work: Awaitable[T]) -> T:
    """What `work` gives. Raises Stopped when it is stopped before."""
    task, stopped = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Stopped
    finally:
        for one in (task, stopped):
            one.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Directory:
    path: Path
    lock: int


@contextmanager
def _directory(settings: Settings) -> Iterator[_Directory]:
    path, lock = choose_directory(settings.data)
    try:
        yield _Directory(path, lock)
    finally:
        os.close(lock)
        if settings.data is None:
            shutil.rmtree(path, ignore_errors=True)
        say("stopped; nothing was left behind" if settings.data is None else f"stopped; data and logs: {path}")


@contextmanager
def _guarded(lock: int) -> Iterator[Guard]:
    """Whoever ends everything when this process is killed."""
    guard = Guard(lock=lock)
    try:
        yield guard
    finally:
        guard.dismiss()


async def _come_up(plan: Plan, crew: Crew) -> None:
    crew.start(plan.control_plane())
    for recipe in plan.processes():
        crew.start(recipe)
    await crew.ready(CONTROL_PLANE)
    for recipe in plan.processes():
        await crew.ready(recipe.name)


async def _flows(gateway: Gateway) -> str | None:
    return "requests are answered" if gateway.well >= ENOUGH else None


async def _cancel(traffic: asyncio.Task[None], gateway: Gateway) -> None:
    traffic.cancel()
    await asyncio.gather(traffic, return_exceptions=True)
    await gateway.leave()


async def _end(crew: Crew, stop: asyncio.Event) -> None:
    """In order; another signal: at once."""
    say("stopping …")
    stop.clear()
    try:
        await unless(stop, crew.end_all(last=CONTROL_PLANE))
    except Stopped:
        crew.kill_all()
