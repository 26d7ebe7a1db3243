"""What is broken in the demo: how, where to look, what must be seen there, and how it is mended."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .plan import DECODES, PREFILL, REPLICA, SECOND_REPLICA, SEED, SPARE
from .stage import Stage

Looks = Callable[[], Awaitable[str | None]]
"""A sentence once it is seen; None while it is not."""


@dataclass
class Act:
    """`what`: in a sentence. `look`: a path of the pages. `begin` breaks, `seen` tells what is shown of it, `mend` mends,
    `mended` tells when all is well."""

    what: str
    look: str
    begin: Callable[[], Awaitable[None]]
    seen: Looks
    mend: Callable[[], Awaitable[None]]
    mended: Looks


async def nothing() -> None:
    """Some things mend themselves."""


def decode_killed(stage: Stage) -> Act:
    name = DECODES[1]

    async def begin() -> None:
        stage.crew.kill(name)

    async def mend() -> None:
        stage.crew.start(stage.plan.decode(name))

    return Act(
        f"kill -9 of {name}",
        f"/instances/{name}/",
        begin,
        lambda: stage.unroutable(name),
        mend,
        lambda: stage.routable(name),
    )


def decode_frozen(stage: Stage) -> Act:
    name = DECODES[0]

    async def begin() -> None:
        stage.crew.signal(name, signal.SIGSTOP)

    async def mend() -> None:
        stage.crew.signal(name, signal.SIGCONT)

    return Act(
        f"{name} is stopped (SIGSTOP): it accepts connections and answers nothing",
        f"/instances/{name}/",
        begin,
        lambda: stage.doubted(name),
        mend,
        lambda: stage.routable(name),
    )


def decode_drained(stage: Stage) -> Act:
    name, operation = DECODES[1], ""

    async def begin() -> None:
        nonlocal operation
        said = await stage.api.post(f"instances/{name}/drain", {"reason": "the demo: new driver"})
        operation = said["operation"]

    async def seen() -> str | None:
        said = await stage.api.get(f"operations/{operation}")
        return str(said["sentence"]) if said["state"] == "succeeded" else None

    async def mend() -> None:
        await stage.api.post(f"instances/{name}/uncordon", {"reason": "the demo: it is back"})

    return Act(
        f"{name} is drained, under traffic",
        f"/drains/?instance={name}",
        begin,
        seen,
        mend,
        lambda: stage.routable(name),
    )


def prefill_killed(stage: Stage) -> Act:
    async def begin() -> None:
        stage.crew.kill(PREFILL)

    async def mend() -> None:
        stage.crew.start(stage.plan.prefill())

    return Act(
        f"kill -9 of {PREFILL}, with all four of its ranks",
        f"/instances/{PREFILL}/",
        begin,
        lambda: stage.unroutable(PREFILL),
        mend,
        lambda: stage.routable(PREFILL),
    )


def prefill_restarted(stage: Stage) -> Act:
    before = 0

    async def begin() -> None:
        nonlocal before
        before = await stage.launch(PREFILL)
        await stage.crew.end(PREFILL)
        stage.crew.start(stage.plan.prefill())

    async def seen() -> str | None:
        now = await stage.launch(PREFILL)
        return f"launch {now} follows launch {before}, on other ports" if now > before else None

    return Act(
        f"{PREFILL} is restarted: its ranks come back on new ports",
        f"/instances/{PREFILL}/?tab=launches",
        begin,
        seen,
        nothing,
        lambda: stage.routable(PREFILL),
    )


def room_spoiled(stage: Stage) -> Act:
    act: Act
    count = 0

    async def begin() -> None:
        nonlocal count
        count = stage.gateway.failed
        stage.crew.signal(PREFILL, signal.SIGUSR1)

    async def seen() -> str | None:
        new = stage.gateway.failed - count
        if not new:
            return None
        for failure in list(stage.gateway.failures)[-new:]:
            said = (await stage.api.get(f"explain/room/{failure.room}"))["conclusion"]
            # The prefill's word that its decode gave up may come before the decode's, which says why.
            if said["kind"] == "failed" and "other room" in said["sentence"]:
                act.look = f"/rooms/{failure.room}/"
                return str(said["sentence"])
        return None

    act = Act(
        "one KV arrives with the number of another room, as from a mixed-up buffer",
        "/rooms/",
        begin,
        seen,
        nothing,
        lambda: stage.routable(PREFILL),
    )
    return act


def directory_killed(stage: Stage) -> Act:
    term, launch = 0, 0

    async def begin() -> None:
        nonlocal term, launch
        term, launch = (await stage.leader())["term"], await stage.launch(PREFILL)
        os.kill(stage.directory, signal.SIGKILL)

    async def seen() -> str | None:
        leader = await stage.leader()
        if not leader["leads"] or leader["term"] == term:
            return None
        same = await stage.launch(PREFILL) == launch
        kept = f"launch {launch} of {PREFILL} serves on" if same else f"{PREFILL} had to register again"
        return f"{leader['holder']} leads, its term is {leader['term']}; {kept}"

    return Act(
        "kill -9 of the directory, the bootstrap process",
        "/",
        begin,
        seen,
        nothing,
        lambda: stage.routable(PREFILL),
    )


def seed_died(stage: Stage) -> Act:
    async def begin() -> None:
        stage.crew.kill(SEED)
        await stage.known(SECOND_REPLICA, role="seed")
        stage.crew.start(stage.plan.replica(SECOND_REPLICA, SEED, REPLICA))

    async def seen() -> str | None:
        if stage.crew.is_ready(SECOND_REPLICA):
            return f"{SECOND_REPLICA} has the weights all the same, from {REPLICA}, which had them from {SEED}"
        return None

    async def mend() -> None:
        await stage.crew.end(SECOND_REPLICA)
        await stage.retire(SECOND_REPLICA)
        stage.crew.start(stage.plan.seed())

    async def mended() -> str | None:
        return f"{SEED} has published again, on another session" if stage.crew.is_ready(SEED) else None

    return Act(f"kill -9 of {SEED}, and {SECOND_REPLICA} wants its weights", "/weights/", begin, seen, mend, mended)


def rank_killed(stage: Stage) -> Act:
    """Ranks without a model in two processes: all but one, and the one."""
    most, one, token = f"{SPARE}-most", f"{SPARE}-dp1-tp1", secrets.token_hex(8)

    async def begin() -> None:
        await stage.known(SPARE, role="prefill")
        stage.crew.start(stage.plan.spare(most, "--skip", "dp1,tp1", token=token))
        stage.crew.start(stage.plan.spare(one, "--only", "dp1,tp1", token=token))
        await stage.until(lambda: stage.routable(SPARE), within=60)
        stage.crew.kill(one)

    async def mend() -> None:
        stage.crew.start(stage.plan.spare(one, "--only", "dp1,tp1", token=token))

    async def mended() -> str | None:
        said = await stage.routable(SPARE)
        if said is not None:
            await stage.crew.end(most)
            await stage.crew.end(one)
            await stage.retire(SPARE)
        return said

    return Act(
        f"one rank of four of {SPARE} (dp1 tp1) gets kill -9",
        f"/instances/{SPARE}/",
        begin,
        lambda: stage.unroutable(SPARE),
        mend,
        mended,
    )


MADE: dict[str, Callable[[Stage], Act]] = {
    "decode-killed": decode_killed,
    "prefill-restarted": prefill_restarted,
    "room-spoiled": room_spoiled,
    "directory-killed": directory_killed,
    "rank-killed": rank_killed,
    "seed-died": seed_died,
    "decode-drained": decode_drained,
    "decode-frozen": decode_frozen,
    "prefill-killed": prefill_killed,
}
