"""The child process of `isolated`: `python -m workers.transfer.mooncake_child CHANNEL_FD LIFELINE_FD`.

It serves one owner until that closes the channel, and dies with it: the kernel signals the end of the lifeline, also while the
library holds the interpreter.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import os
import signal
import socket
import sys

import msgspec

from workers.transfer.channel import Answer, Ask, Channel
from workers.transfer.errors import BadBlocks, TransferError, TransferFailed
from workers.transfer.memory import Segment
from workers.transfer.mooncake import MooncakeEngine

THREADS = 8


class Served:
    """The engine of this process, and the segments that it was given, by the number under which peers know them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._engine: MooncakeEngine | None = None
        self._segments: dict[int, Segment] = {}

    def answer(self, ask: Ask, fds: list[int]) -> None:
        try:
            answer = self._do(ask, fds)
        except TransferFailed as why:
            answer = Answer(ask.number, type(why).__name__, str(why), settled=why.settled)
        except TransferError as why:
            answer = Answer(ask.number, type(why).__name__, str(why))
        except Exception as why:
            answer = Answer(ask.number, "TransferFailed", f"{ask.what} failed: {why!r}", settled=False)
        self._channel.send(answer)

    def _do(self, ask: Ask, fds: list[int]) -> Answer:
        if ask.what == "open":
            self._engine = MooncakeEngine(ask.text)
            return Answer(ask.number, text=self._engine.session)
        if self._engine is None:
            raise BadBlocks("the engine is not open")
        if ask.what == "register":
            segment = Segment(ask.numbers[0], fd=fds[0])
            base = self._engine.register(segment)
            self._segments[base] = segment
            return Answer(ask.number, value=base)
        if ask.what == "unregister":
            segment = self._segments.pop(ask.numbers[0])
            self._engine.unregister(segment)
            segment.close()
            return Answer(ask.number)
        blocks = list(zip(*[iter(ask.numbers)] * 3, strict=True))
        move = self._engine.write if ask.what == "write" else self._engine.read
        move(ask.text, blocks, timeout=ask.timeout)
        return Answer(ask.number)


def die_with(lifeline: int) -> None:
    """The write end is the owner's alone, and nothing is ever written: its end is the owner's end, and SIGIO ends us."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    # It may have ended before we asked to be told.
    try:
        if os.read(lifeline, 1) == b"":
            os._exit(1)
    except BlockingIOError:
        pass


def main() -> None:
    channel_fd, lifeline = map(int, sys.argv[1:3])
    die_with(lifeline)
    # A terminal's Ctrl-C is for the owner, which then closes the channel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=channel_fd))
    served = Served(channel)
    threads = concurrent.futures.ThreadPoolExecutor(THREADS)
    while (heard := channel.receive()) is not None:
        body, fds = heard
        ask = msgspec.msgpack.decode(body, type=Ask)
        if ask.what in ("write", "read"):
            threads.submit(served.answer, ask, fds)
        else:
            served.answer(ask, fds)
    # Batches may be under way, and no destructor is worth waiting for.
    os._exit(0)


if __name__ == "__main__":
    main()
