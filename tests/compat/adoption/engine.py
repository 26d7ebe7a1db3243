"""A prefill and a decode of the real SGLang in one process, each behind a small HTTP front that a router may send to.

Managers, senders, receivers, Mooncake transfer, bootstrap server and the commit of a decode are SGLang's own; what is missing
is the model. Its plugins are loaded as a scheduler loads them. Says `engines ready` when both fronts serve.

    python -m tests.compat.adoption.engine '{"kv": 8998, "prefill": 30000, "decode": 30001}'
"""

from __future__ import annotations

from tests.workers.transfer import sglang_peer  # isort: skip  (before anything of SGLang)
import tests.compat.adoption.decode_side  # noqa: F401  isort: skip
import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
from aiohttp import web
from sglang.srt.disaggregation.base.conn import KVPoll
from sglang.srt.disaggregation.decode import DecodeTransferQueue
from sglang.srt.disaggregation.mooncake.conn import (
    MooncakeKVBootstrapServer,
    MooncakeKVReceiver,
    MooncakeKVSender,
)
from sglang.srt.distributed.device_communicators.mooncake_transfer_engine import init_mooncake_transfer_engine
from sglang.srt.plugins import load_plugins

from tests.doubles.engine import ASKED, Engine

SIZES = {"layers": 2, "heads": 2, "head_dim": 16, "page": 4}
PAGES_A_SLOT = sglang_peer.PAGES // sglang_peer.SLOTS
TOKEN = 42
REQUEST_SECONDS = 30.0
FAILED = (KVPoll.Failed,)


class Refused(Exception):
    """The request failed, as SGLang says it."""


class Slots:
    """The metadata slots of a side, each with pages of its own."""

    def __init__(self) -> None:
        self._free, self._changed = list(range(sglang_peer.SLOTS)), threading.Condition()

    @contextlib.contextmanager
    def one(self) -> Iterator[tuple[int, Any]]:
        with self._changed:
            assert self._changed.wait_for(lambda: self._free, timeout=REQUEST_SECONDS)
            slot = self._free.pop()
        try:
            yield slot, np.arange(slot * PAGES_A_SLOT, (slot + 1) * PAGES_A_SLOT, dtype=np.int32)
        finally:
            with self._changed:
                self._free.append(slot)
                self._changed.notify()


class Front(Engine):
    """`serve(body)` runs on a thread of its own, as a scheduler does beside the HTTP server."""

    def __init__(self, role: str, *, kv_port: int, port: int) -> None:
        super().__init__(role, bootstrap_port=kv_port, port=port)
        self.kv_port, self.slots, self.threads = kv_port, Slots(), ThreadPoolExecutor(sglang_peer.SLOTS)
        self.side = sglang_peer.Side(role, kv_port, **SIZES)

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        loop = self._loop
        assert loop is not None
        body = request[ASKED].body
        self._held[0] += 1
        try:
            said = await loop.run_in_executor(self.threads, self.serve, body)
        except Exception as problem:
            if not isinstance(problem, Refused):
                logging.getLogger(__name__).exception("%s failed", self.role)
            return web.json_response({"error": {"message": str(problem)}}, status=500)
        finally:
            self._held[0] -= 1
        return web.json_response({**self._answer("/generate"), **said})

    def serve(self, body: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


class PrefillFront(Front):
    def serve(self, body: dict[str, Any]) -> dict[str, Any]:
        room = body["bootstrap_room"]
        # As disaggregation/prefill.py has it: the host of the request, the port of this engine.
        sender = MooncakeKVSender(self.side.manager, f"{body['bootstrap_host']}:{self.kv_port}", room)
        try:
            until(sender, KVPoll.WaitingForInput)
            with self.slots.one() as (slot, pages):
                self.side.metadata.output_ids[slot][0] = TOKEN
                self.side.metadata.bootstrap_room[slot, 0] = body.get("written_room", room)
                sender.init(len(pages), slot)
                sender.send(pages)
                until(sender, KVPoll.Success)
        finally:
            sender.clear()
        return {"room": room}


class DecodeFront(Front):
    def serve(self, body: dict[str, Any]) -> dict[str, Any]:
        room, address = body["bootstrap_room"], f"{body['bootstrap_host']}:{body['bootstrap_port']}"
        end = time.monotonic() + REQUEST_SECONDS / 2
        while not self.side.manager.try_ensure_parallel_info(address):
            if time.monotonic() > end:
                raise Refused(f"no topology from {address}")
            time.sleep(0.1)
        with self.slots.one() as (slot, pages):
            self.side.metadata.clear_slot(slot)
            receiver = MooncakeKVReceiver(self.side.manager, address, room)
            receiver.init(0)
            until(receiver, KVPoll.WaitingForInput)
            receiver.send_metadata(pages, slot)
            until(receiver, KVPoll.Success)
            return self.commit(receiver, room, slot)

    def commit(self, receiver: Any, room: int, slot: int) -> dict[str, Any]:
        """SGLang's own last step, which checks the room that came with the KV."""
        while not int(self.side.metadata.bootstrap_room[slot, 0]):
            time.sleep(0.001)
        req = request_of(room)
        queue = object.__new__(DecodeTransferQueue)
        queue.metadata_buffers, queue.spec_algorithm = self.side.metadata, SimpleNamespace(is_none=lambda: True)
        processor = SimpleNamespace(_maybe_update_reasoning_tokens=lambda *_: None)
        queue.scheduler = SimpleNamespace(
            kv_checksum_computer=None, batch_result_processor=processor, enable_decode_hicache=False
        )
        queue._commit_hicache_local_restore_to_req = lambda _: None
        queue._commit_transfer_to_req(
            SimpleNamespace(req=req, kv_receiver=receiver, metadata_buffer_index=slot, is_rebootstrap=False)
        )
        if req.finished_reason is not None:
            raise Refused(req.finished_reason.message)
        return {"output_ids": list(req.output_ids), "room": room}


def request_of(room: int) -> Any:
    """What the commit reads and sets of a request."""
    return SimpleNamespace(
        rid=f"r-{room}",
        bootstrap_room=room,
        bootstrap_host="127.0.0.1",
        output_ids=[],
        finished_reason=None,
        return_logprob=False,
        return_sampling_mask=False,
        time_stats=SimpleNamespace(set_wait_queue_entry_time=lambda: None),
    )


def until(way: Any, wanted: int) -> None:
    """Raises Refused with SGLang's own reason."""
    end = time.monotonic() + REQUEST_SECONDS
    while (poll := way.poll()) < wanted and poll not in FAILED and time.monotonic() < end:
        time.sleep(0.002)
    if poll in FAILED or poll < wanted:
        try:
            way.failure_exception()
        except Exception as problem:
            raise Refused(str(problem)) from None


def main() -> None:
    given = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    load_plugins()
    init_mooncake_transfer_engine("127.0.0.1")
    server = MooncakeKVBootstrapServer("127.0.0.1", given["kv"])
    begun = time.monotonic()
    prefill = PrefillFront("prefill", kv_port=given["kv"], port=given["prefill"]).start()
    decode = DecodeFront("decode", kv_port=given["kv"], port=given["decode"]).start()
    took = time.monotonic() - begun
    print(f"engines ready in {took:.2f} s, own server {server.thread.is_alive()}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del prefill, decode
    # SGLang's ZeroMQ contexts would wait for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
