"""Composition of one relay: journal, link, upkeep and server, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from controlplane.domain.addresses import bracketed

from . import settings as reading
from .door import Door
from .http import Server
from .journal import Journal, JournalFailed
from .keeping import Keeping
from .link import Link
from .networks import Admission
from .settings import EVERYWHERE, Settings
from .upkeep import Upkeep

log = logging.getLogger(__name__)


class PortTaken(Exception):
    """The text is a sentence."""


async def serve(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Until `stop`. Raises JournalFailed, PortTaken."""
    clock = steady()
    link = Link(settings.control_plane, clock=clock)
    keeping = Keeping(
        settings.instance,
        Journal(settings.data),
        link,
        room_seconds=settings.room_seconds,
        most_rooms=settings.most_rooms,
        clock=clock,
    )
    upkeep = Upkeep(keeping, worker=settings.worker, lease=settings.lease)
    door = Door(keeping, upkeep, Admission(settings.networks), worker=settings.worker)
    server = Server(door, door.closed)
    stop = stop if stop is not None else _until_told()
    work: asyncio.Task[None] | None = None
    try:
        port = await listen(server, settings)
        work = asyncio.create_task(upkeep.run())
        where = bracketed(settings.listen[0])
        print(
            f"relay ready kv={where}:{port} instance={settings.instance} control_plane={settings.control_plane.kv}"
            f" pid={os.getpid()}",
            flush=True,
        )
        await stop.wait()
    finally:
        await server.close()
        if work is not None:
            work.cancel()
            await asyncio.wait({work})
        await link.aclose()
        await asyncio.to_thread(keeping.journal.close)


async def listen(server: Server, settings: Settings) -> int:
    """On every address, one port. Raises PortTaken. A host without IPv6 is none where it is not asked for."""
    port = settings.port
    for address in settings.listen:
        try:
            port = await server.listen(address, port)
        except OSError as problem:
            here = f"{bracketed(address)}:{port}"
            if problem.errno == errno.EADDRINUSE:
                raise PortTaken(
                    f"{here} is taken: start the relay before the engine, whose own bootstrap server holds it now perhaps;"
                    " --port is the engine's --disaggregation-bootstrap-port"
                ) from None
            if address == EVERYWHERE[1] and settings.listen == EVERYWHERE:
                log.info("this host has no IPv6 (%s); IPv4 alone is listened on", problem.strerror)
                continue
            raise PortTaken(f"{here} cannot be listened on (--listen): {problem.strerror}") from None
    return port


def steady() -> Callable[[], float]:
    """Seconds since the epoch, as this host had it when the relay started: a clock that is set while it runs would end rooms
    before their time, or let a flush go on for as long as it was set back."""
    ahead = time.time() - time.monotonic()
    return lambda: time.monotonic() + ahead


def main(words: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = reading.read(words)
    try:
        asyncio.run(serve(settings))
    except (JournalFailed, PortTaken) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


def _until_told() -> asyncio.Event:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop
