"""Commands typed while a simulation runs: kill, restart, status, quit."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from controlplane.domain.errors import Refused
from controlplane.simulation.instance import Instance
from controlplane.simulation.report import Reporter
from controlplane.simulation.shape import Selector

HELP = "kill dp0 tp1 | kill all | restart | restart dp0 tp1 | status | quit"
READY_WITHIN_SECONDS = 30.0


def has_terminal() -> bool:
    """Whether somebody can type: a terminal that we are in front of.

    Reading a terminal from the background (`simulate &`) would stop the whole process with SIGTTIN.
    """
    return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()


async def typed_lines() -> AsyncIterator[str]:
    """Lines of standard input until it ends."""
    reader = asyncio.StreamReader()
    # A duplicate, since the transport closes what it is given and makes it non-blocking only while we read.
    stream = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), stream
    )
    try:
        while line := await reader.readline():
            yield line.decode(errors="replace").strip()
    finally:
        transport.close()
        # O_NONBLOCK belongs to the open file, which the shell behind us shares.
        os.set_blocking(sys.stdin.fileno(), True)


async def obey(instance: Instance, reporter: Reporter) -> None:
    """Do what is typed until `quit` or the end of input. A command runs to its end before the next."""
    reporter.tell("console", f"type {HELP}")
    async for line in typed_lines():
        if line in ("quit", "exit"):
            return
        try:
            await do(instance, line, reporter)
        except Refused as refusal:
            reporter.tell("refused", refusal.sentence, text=refusal.sentence)


async def do(instance: Instance, line: str, reporter: Reporter) -> None:
    """One command line. Refused, with a sentence, when it is none."""
    word, _, rest = line.strip().partition(" ")
    match word:
        case "":
            return
        case "kill":
            instance.kill(Selector.parse(rest))
        case "restart":
            await instance.restart(Selector.parse(rest) if rest.strip() else None)
            await instance.wait_ready(within=READY_WITHIN_SECONDS)
        case "status":
            await instance.tell_status()
        case "help" | "?":
            reporter.tell("help", HELP)
        case _:
            raise Refused(f"{word!a} is not a command; there are: {HELP}")
