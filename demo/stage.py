"""What chaos acts on, and how it looks at it: the fleet's processes, its gateway, and what the control plane says of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .api import Api, Away
from .crew import Crew
from .gateway import Gateway
from .plan import Plan

LOOK_SECONDS = 0.3
DOUBTS = ("engine_silent", "engine_late", "open", "half_open")
"""Reasons that keep nobody away by themselves, and show that something is wrong."""


class Unseen(Exception):
    """What had to be seen was not, in time."""


@dataclass
class Stage:
    """`directory`: the process id of the bootstrap process, as its ready line says it."""

    plan: Plan
    crew: Crew
    api: Api
    gateway: Gateway
    directory: int = 0

    async def unroutable(self, name: str) -> str | None:
        """Why `name` is sent nothing; None when it can be."""
        (item,) = (await self.api.get(f"explain/routable?instance={name}"))["items"]
        return None if item["routable"] else str(item["because"])

    async def doubted(self, name: str) -> str | None:
        """Why `name` is sent nothing, or what speaks against it; None when nothing does."""
        (item,) = (await self.api.get(f"explain/routable?instance={name}"))["items"]
        if not item["routable"]:
            return str(item["because"])
        return next((str(reason["sentence"]) for reason in item["reasons"] if reason["code"] in DOUBTS), None)

    async def routable(self, name: str) -> str | None:
        """A sentence when it can be sent work and nothing speaks against it."""
        return f"{name} can be sent work" if await self.doubted(name) is None else None

    async def leader(self) -> dict[str, Any]:
        """The bootstrap process: who, in which term, whether it leads."""
        found: dict[str, Any] = (await self.api.get("instances?limit=1"))["bootstrap"]
        return found

    async def launch(self, name: str) -> int:
        """The number of the launch that serves; 0 without one."""
        found = (await self.api.get(f"instances/{name}"))["launch"]
        return int(found["number"]) if found else 0

    async def known(self, name: str, *, role: str) -> None:
        """Add it, also when it was retired; one that is there stays as it is."""
        try:
            await self.api.post("instances", {"name": name, "role": role, "reason": "the demo: for a while"})
        except Away as problem:
            if problem.status != 409:
                raise

    async def retire(self, name: str) -> None:
        await self.api.post(f"instances/{name}/retire", {"reason": "the demo: it has served its turn"})

    async def until(self, look: Callable[[], Awaitable[str | None]], *, within: float) -> str:
        """What `look` says once it says something; while nobody answers it is asked again. Raises Unseen."""
        end = time.monotonic() + within
        trouble = ""
        while time.monotonic() < end:
            try:
                if (said := await look()) is not None:
                    return said
            except Away as problem:
                trouble = f" ({problem})"
            await asyncio.sleep(LOOK_SECONDS)
        raise Unseen(f"nothing of it was seen within {within:g} s{trouble}")
