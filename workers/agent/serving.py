"""One instance of the reference pair, a prefill or a decode, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import torch
from aiohttp import web

from workers.sdk import WorkerError
from workers.transfer import TransferError

from . import settings as reading
from .decode import Decode
from .http import Door
from .prefill import Prefill
from .settings import Settings

STOP_SECONDS = 5.0


async def serve(settings: Settings, agent: Prefill | Decode) -> None:
    door = Door(agent)
    runner = web.AppRunner(door.app(), handler_cancellation=True, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, settings.host, settings.port)
    await site.start()
    port = runner.addresses[0][1]
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    if isinstance(agent, Prefill):
        await asyncio.to_thread(agent.register, port)
    print(f"{settings.mode} ready http://{settings.host}:{port} ranks={settings.ranks}", flush=True)
    await stop.wait()
    # What is under way is told that it ends, and its clients with it.
    await asyncio.to_thread(agent.desk.abort, "", f"the {settings.mode} is shutting down")
    await runner.cleanup()
    door.close()


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = reading.read()
    # The ranks are threads already, and each has little to compute.
    torch.set_num_threads(1)
    try:
        agent = Prefill(settings) if settings.mode == "prefill" else Decode(settings)
    except (WorkerError, TransferError, OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    try:
        asyncio.run(serve(settings, agent))
    finally:
        agent.close()
    return 0
