"""Names are looked up beside, once for all who wait, and whichever address answers is taken."""

import asyncio
import doctest
import socket
import threading
from collections import Counter

import pytest

from tests.support.ports import free_port
from tests.workers.sdk.server import Said
from workers.sdk import connecting
from workers.sdk.errors import Unreachable
from workers.sdk.exchange import Ask
from workers.sdk.places import Place
from workers.sdk.wire import Wire

GET = Ask("GET", "/x")
GENEROUS = 20.0


class NameServer:
    """Knows `names`; what is asked for any other stays unanswered until `give_up`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> None:
        self._names, self._over = names, threading.Event()
        self.asked: Counter[str] = Counter()
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, name, port, *args, **more):
        self.asked[name] += 1
        if name not in self._names:
            self._over.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(0, 0, 0, "", (at, 0, 0, 0) if ":" in at else (at, 0)) for at in self._names[name]]

    def give_up(self) -> None:
        self._over.set()


@pytest.fixture
def wire():
    return Wire(connect_seconds=0.05)


def test_the_examples_in_the_docstrings_are_true():
    result = doctest.testmod(connecting)
    assert (result.attempted, result.failed) == (1, 0)


async def test_a_name_that_nobody_answers_for_holds_up_no_other_name_and_is_looked_up_once_for_all(serve, monkeypatch):
    server = serve(lambda heard: Said())
    names = NameServer(monkeypatch, {"good.rack": ["127.0.0.1"]})
    patient, wire = Wire(connect_seconds=GENEROUS), Wire(connect_seconds=0.05)
    for _ in range(40):
        with pytest.raises(Unreachable, match="no connection within"):
            await wire.ask(Place("bad.rack", 9), GET, within=GENEROUS)
    assert (await patient.ask(Place("good.rack", server.place.port), GET, within=GENEROUS)).status == 200
    assert names.asked == {"bad.rack": 1, "good.rack": 1}
    # What is looked up then is not joined at the end of the loop, or of the process.
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "pd-lookup")
    names.give_up()
    with pytest.raises(Unreachable, match="its name cannot be resolved"):
        await patient.ask(Place("bad.rack", 9), GET, within=GENEROUS)
    await asyncio.gather(patient.aclose(), wire.aclose())


async def test_a_name_of_which_one_address_is_dead_is_reached_at_the_other(serve, monkeypatch):
    server = serve(lambda heard: Said())
    NameServer(monkeypatch, {"both.rack": ["::1", "127.0.0.1"], "dead.rack": ["::1", "127.0.0.2"]})
    wire = Wire(connect_seconds=GENEROUS)
    assert (await wire.ask(Place("both.rack", server.place.port), GET, within=GENEROUS)).status == 200
    with pytest.raises(Unreachable):
        await wire.ask(Place("dead.rack", free_port()), GET, within=GENEROUS)
    await wire.aclose()


async def test_more_names_at_once_than_there_may_be_threads_are_said_to_be_too_many(monkeypatch, wire):
    monkeypatch.setattr(connecting, "MOST_LOOKUPS", 2)
    names = NameServer(monkeypatch, {})
    for name in ("a.rack", "b.rack"):
        with pytest.raises(Unreachable, match="no connection within"):
            await wire.ask(Place(name, 9), GET, within=GENEROUS)
    with pytest.raises(Unreachable, match="2 other names are being looked up"):
        await wire.ask(Place("c.rack", 9), GET, within=GENEROUS)
    names.give_up()
    await wire.aclose()


async def test_a_connection_that_came_through_as_its_caller_gave_up_is_closed(monkeypatch):
    opened, begun, closed = asyncio.Event(), asyncio.Event(), []

    class Opened:
        def close(self) -> None:
            closed.append(self)

    async def line_to(address, place, tls):
        begun.set()
        await opened.wait()
        return Opened()

    monkeypatch.setattr(connecting, "_line_to", line_to)
    asking = asyncio.ensure_future(connecting._first(["10.0.0.1", "10.0.0.2"], Place("both.rack", 9), None))
    await begun.wait()
    opened.set()
    await asyncio.sleep(0)  # the connection is there, and nobody was told yet
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0)
    assert len(closed) == 1
