"""What the watcher vouches for, and what it does not while it cannot know."""

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from tests.workers.sdk.server import HANG, Said, say
from tests.workers.sdk.waiting import soon
from workers.sdk import ControlPlane
from workers.sdk.watching import Watcher
from workers.sdk.wire import Wire


class Ledger:
    """The events of a ledger, as the API tells them; an answer with `after` and nothing new comes after 20 ms."""

    def __init__(self) -> None:
        self.id, self.events = "l1", []
        self.instead = None

    def happen(self, instance: str) -> None:
        self.events.append({"revision": len(self.events) + 1, "instance": instance, "kind": "launch.promoted"})

    def answer(self, heard):
        if self.instead is not None:
            return self.instead
        query = parse_qs(urlsplit(heard.path).query)
        if "after" not in query:
            return self._say([], None)
        ledger, _, after = query["after"][0].partition(":")
        if ledger != self.id:
            return say({"detail": "this ledger does not contain it", "code": "cursor_gone"}, 410)
        return self._say(self.events[int(after) :], f"{self.id}:{len(self.events)}", after=0.02)

    def _say(self, items, following, **more):
        body = {"ledger": self.id, "revision": len(self.events), "items": items, "next": following, "more": False}
        return say(body, **more)


@asynccontextmanager
async def watching(serve, ledger: Ledger, **more):
    server, wire = serve(ledger.answer), Wire()
    watcher = Watcher(wire, ControlPlane(server.place, server.place, server.place, None, "t"), server.place, **more)
    running = asyncio.create_task(watcher.run())
    watcher.server = server
    try:
        yield watcher
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})
        await wire.aclose()


async def test_it_vouches_until_something_happens_to_that_instance(serve):
    ledger = Ledger()
    async with watching(serve, ledger) as watcher:
        assert watcher.mark is None and not watcher.vouches_for("a", None)
        mark = await soon(lambda: watcher.mark)
        assert watcher.vouches_for("a", mark) and watcher.vouches_for("b", mark)
        assert not watcher.vouches_for(None, mark), "nobody can tell which one it is"
        ledger.happen("a")
        await soon(lambda: not watcher.vouches_for("a", mark))
        assert watcher.vouches_for("b", mark)
        assert watcher.vouches_for("a", watcher.mark), "what was asked after it happened knows of it"


async def test_another_ledger_puts_all_in_doubt(serve):
    ledger = Ledger()
    async with watching(serve, ledger) as watcher:
        mark = await soon(lambda: watcher.mark)
        ledger.id = "restored"
        await soon(lambda: not watcher.current)
        await soon(lambda: watcher.current)
        assert not watcher.vouches_for("a", mark)
        assert watcher.vouches_for("a", watcher.mark)


async def test_it_vouches_for_nothing_once_it_has_not_heard_for_as_long_as_a_poll_takes(serve):
    ledger, now = Ledger(), [0.0]
    async with watching(serve, ledger, clock=lambda: now[0]) as watcher:
        mark = await soon(lambda: watcher.mark)
        ledger.instead = HANG
        heard = len(watcher.server.heard)
        await soon(lambda: len(watcher.server.heard) > heard)
        now[0] += 29
        assert watcher.vouches_for("a", mark)
        now[0] += 2
        assert not watcher.vouches_for("a", mark)


async def test_who_may_not_read_events_goes_without(serve):
    ledger = Ledger()
    ledger.instead = Said(403, b'{"detail": "this token may not read"}')
    async with watching(serve, ledger) as watcher:
        await soon(lambda: "may not read" in watcher.trouble)
        assert watcher.mark is None


async def test_a_token_of_one_instance_follows_that_one(serve):
    ledger = Ledger()
    async with watching(serve, ledger, instance="a") as watcher:
        mark = await soon(lambda: watcher.mark)
        assert watcher.vouches_for("a", mark) and not watcher.vouches_for("b", mark)
        query = parse_qs(urlsplit(watcher.server.heard[0].path).query)
        assert query["instance"] == ["a"]
        assert watcher.server.heard[0].headers["x-pd-token"] == "t"
