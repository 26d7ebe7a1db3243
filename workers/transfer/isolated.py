"""Mooncake in a child process: what it may do to us is bounded, and killing it is the proof that nothing writes any more.

Memory must be a `Segment`: the child maps it too, so bytes go from the peer straight into our tensors. The child is spawned
by exec, never forked; it ends with this process, however that ends.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import msgspec

from workers.transfer import errors
from workers.transfer.blocks import Block, batches
from workers.transfer.channel import Answer, Ask, Channel
from workers.transfer.engine import CALL_SECONDS, PROBE_SECONDS
from workers.transfer.errors import BadBlocks, EngineLost, TransferError, TransferFailed
from workers.transfer.memory import Region, Regions
from workers.transfer.mooncake import bound_environment, probe

START_SECONDS = 60.0
"""The child imports the library and binds its ports; on an idle machine this takes half a second."""
SEND_SECONDS = 5
GRACE_SECONDS = 1.0
"""How much longer than the child, which keeps the time itself, we wait for its answer."""
ENDED = "mooncake's process ended by itself"
ROOT = Path(__file__).resolve().parents[2]


class IsolatedMooncake:
    """A `TransferEngine`. A call whose time is over ends the child; the next ones say EngineLost until `reset`."""

    kind = "mooncake"

    def __init__(self, host: str) -> None:
        self._host = host
        self._own = Regions()
        self._bases: dict[int, int] = {}
        self._lock = threading.RLock()
        self._child = _Child(host)

    @property
    def session(self) -> str:
        return self._child.session

    @property
    def alive(self) -> bool:
        return self._child.alive

    @property
    def pid(self) -> int:
        return self._child.pid

    def register(self, region: Region) -> int:
        with self._lock:
            self._own.add(region)
            try:
                base = self._child.register(region)
            except TransferError:
                self._own.drop(region)
                raise
            self._bases[id(region)] = base
            return base

    def base(self, region: Region) -> int:
        with self._lock:
            self._own.base(region)
            return self._bases[id(region)]

    def unregister(self, region: Region) -> None:
        with self._lock:
            base = self.base(region)
            self._own.drop(region)
            del self._bases[id(region)]
            if self._child.alive:
                self._child.ask("unregister", numbers=[base])

    def write(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self._move("write", session, blocks, timeout)

    def read(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self._move("read", session, blocks, timeout)

    def probe(self, session: str, *, timeout: float = PROBE_SECONDS) -> bool:
        return probe(session, timeout=timeout)

    def reset(self) -> str:
        with self._lock:
            self._child.kill()
            self._child = _Child(self._host)
            for region in self._own:
                self._bases[id(region)] = self._child.register(region)
            return self._child.session

    def close(self) -> None:
        self._child.kill()

    def _move(self, way: str, session: str, blocks: Sequence[Block], timeout: float) -> None:
        """Batch by batch: the child is asked for at most `MAX_BATCH` blocks at once, and what is left of the time."""
        deadline = time.monotonic() + timeout
        child = self._child
        for batch in batches(blocks):
            numbers: list[int] = []
            with self._lock:
                for local, remote, length in batch:
                    numbers += (self._translate(local, length), remote, length)
            left = deadline - time.monotonic()
            if left <= 0:
                raise TransferFailed(f"the {way} to {session} took more than {timeout:g} s", settled=True)
            try:
                child.ask(way, session, numbers, timeout=left, wait=left)
            except EngineLost as why:
                # Killed, we write nothing into our own memory; what is on its way to the peer still may arrive.
                raise EngineLost(str(why), settled=why.settled or way == "read") from None

    def _translate(self, address: int, length: int) -> int:
        for region in self._own:
            if region.address <= address and address + length <= region.address + region.length and length > 0:
                return self._bases[id(region)] + address - region.address
        raise BadBlocks(f"{length} bytes at {address:#x} are not within registered memory")


class _Child:
    """One life of the child process: its channel, its answers, its end."""

    def __init__(self, host: str) -> None:
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        environ = dict(os.environ)
        bound_environment(environ)
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "workers.transfer.mooncake_child", str(theirs.fileno()), str(lifeline)]
        try:
            self._process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(), lifeline)
            )
        finally:
            theirs.close()
            os.close(lifeline)
        self._end = ours
        # Only for sending: the reader waits for as long as it takes.
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        self._channel = Channel(ours)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._lost = ""
        self._reader = threading.Thread(target=self._read, name="mooncake child", daemon=True)
        self._reader.start()
        try:
            self.session = self.ask("open", host, wait=START_SECONDS).text
        except TransferError:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._lost

    def register(self, region: Region) -> int:
        fd = region.fileno()
        if fd is None:
            raise BadBlocks(
                "mooncake in a child process moves segments only; use MooncakeEngine for memory of this process"
            )
        return self.ask("register", numbers=[region.length], fds=(fd,)).value

    def ask(
        self,
        what: str,
        text: str = "",
        numbers: Sequence[int] = (),
        *,
        fds: Sequence[int] = (),
        timeout: float = 0.0,
        wait: float = CALL_SECONDS,
    ) -> Answer:
        """Raises what the child says, or EngineLost when it says nothing for `wait` seconds, and is killed then (`settled`
        when it was lost before, so that nothing was begun)."""
        future: Future[Answer] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._lost:
                raise EngineLost(self._lost, settled=True)
            self._waiting[number] = future
        try:
            self._channel.send(Ask(number, what, text, list(numbers), timeout), fds)
            answer = future.result(wait + GRACE_SECONDS)
        except (TimeoutError, BlockingIOError):
            self.kill(f"mooncake's process did not finish {what} in {wait:.3g} s, and was ended")
            raise EngineLost(self._lost, settled=False) from None
        except OSError:
            self.kill(ENDED)
            raise EngineLost(self._lost, settled=False) from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if answer.error:
            _raise(answer)
        return answer

    def kill(self, why: str = "mooncake's process was ended") -> None:
        """Afterwards it is gone: nothing of it reads or writes memory any more."""
        with self._lock:
            self._lost = self._lost or why
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._reader is not threading.current_thread():
            self._reader.join()
        with self._lock:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
        self._channel.close()

    def _read(self) -> None:
        try:
            while (heard := self._channel.receive()) is not None:
                answer = msgspec.msgpack.decode(heard[0], type=Answer)
                with self._lock:
                    future = self._waiting.pop(answer.number, None)
                if future is not None:
                    future.set_result(answer)
        except (OSError, ValueError, msgspec.MsgspecError):
            pass
        with self._lock:
            self._lost = self._lost or ENDED
            waiting = list(self._waiting.items())
        for number, future in waiting:
            future.set_result(Answer(number, "EngineLost", self._lost, settled=False))


def _raise(answer: Answer) -> None:
    if answer.error == "PeerSilent":
        raise errors.PeerSilent(answer.text)
    if answer.error == "EngineLost":
        raise EngineLost(answer.text, settled=answer.settled)
    if answer.error in ("BadBlocks", "NotInstalled"):
        raise getattr(errors, answer.error)(answer.text)
    raise TransferFailed(answer.text, settled=answer.settled)
