"""A process with SGLang's real Mooncake manager, sender and receiver on a CPU: one JSON command a line, one answer.

{"read": [[frame, …], …]}            the fields that SGLang's classes read from our frames (base64)
{"slices": heads}                     its head slices for all TP sizes up to 8
{"serve": port}                       its bootstrap server
{"prefill"|"decode": {…}}            a manager with real tensors; the answer says where it listens
{"send"|"receive": {…}}              a sender or a receiver for a room
{"poll": room}, {"pages": [page, …]}  how far it is; what lies in pages (base64)
"""

import os

os.environ |= {"MOONCAKE_PROTOCOL": "tcp", "MC_FORCE_TCP": "1", "MC_LOG_LEVEL": "ERROR"}

from tests.compat import harness  # isort: skip  (before anything of SGLang)
import base64
import contextlib
import dataclasses
import itertools
import json
import sys
import traceback
from typing import Any

import numpy as np
import torch
from sglang.srt.disaggregation.base.conn import KVArgs
from sglang.srt.disaggregation.common.conn import CommonKVBootstrapServer
from sglang.srt.disaggregation.common.staging_buffer import compute_head_slice_params
from sglang.srt.disaggregation.mooncake.conn import (
    KVArgsRegisterInfo,
    MooncakeKVManager,
    MooncakeKVReceiver,
    MooncakeKVSender,
    TransferInfo,
)
from sglang.srt.disaggregation.utils import DisaggregationMode, MetadataBuffers
from sglang.srt.distributed.device_communicators.mooncake_transfer_engine import init_mooncake_transfer_engine
from sglang.srt.distributed.utils import get_pp_indices

PAGES, SLOTS, HIDDEN = 32, 8, 32
FACTS = contextlib.ExitStack()


class Side:
    """A manager, its tensors and its metadata."""

    def __init__(
        self,
        mode: str,
        port: int,
        layers: int,
        heads: int,
        head_dim: int,
        page: int,
        hidden: int = HIDDEN,
    ) -> None:
        self.buffers = [torch.zeros((PAGES, page, heads, head_dim), dtype=torch.uint8) for _ in range(2 * layers)]
        self.metadata = MetadataBuffers(SLOTS, hidden, torch.float32, 0)
        # For good: the manager's threads look things up there later.
        server_args = FACTS.enter_context(harness.published(disaggregation_bootstrap_port=port))
        FACTS.enter_context(harness._parallel(harness.Shape(), cp=0, tp=0, dp=0, pp=0, key=None))
        self.manager = MooncakeKVManager(self.kv_args(heads, page), DisaggregationMode(mode), server_args, False)
        harness._kept.append(self.manager)

    def kv_args(self, heads: int, page: int) -> KVArgs:
        args = harness._kv_args(engine_rank=0, page_size=page)
        args.kv_data_ptrs = [buffer.data_ptr() for buffer in self.buffers]
        args.kv_data_lens = [buffer.nbytes for buffer in self.buffers]
        args.kv_item_lens = [buffer[0].nbytes for buffer in self.buffers]
        args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens = self.metadata.get_buf_infos()
        args.kv_head_num = args.total_kv_head_num = heads
        args.prefill_start_layer, args.num_draft_entries, args.gpu_id = 0, 0, 0
        return args


class Peer:
    """What the commands do."""

    def __init__(self) -> None:
        self.sides: dict[str, Side] = {}
        self.rooms: dict[int, Any] = {}
        self.servers: list[Any] = []

    def read(self, messages: list[list[str]]) -> list[dict[str, Any]]:
        return [fields(read_back([base64.b64decode(frame) for frame in frames])) for frames in messages]

    def slices(self, heads: int) -> list[list[int]]:
        found = []
        for source_tp, target_tp in itertools.product((1, 2, 4, 8), repeat=2):
            for source, target in itertools.product(range(source_tp), range(target_tp)):
                start, count, at, _ = compute_head_slice_params(source_tp, target_tp, source, target, heads)
                found.append([source_tp, target_tp, source, target, start, count, at])
        return found

    def stages(self, layers: int) -> list[list[int]]:
        return [[size, rank, *get_pp_indices(layers, rank, size)] for size in (1, 2, 3, 4) for rank in range(size)]

    def serve(self, port: int) -> None:
        self.servers.append(CommonKVBootstrapServer("127.0.0.1", port))
        assert harness.wait_until(lambda: harness._is_healthy(port), within=40) is not None

    def start(self, mode: str, port: int, **sizes: int) -> dict[str, Any]:
        init_mooncake_transfer_engine("127.0.0.1")
        self.sides[mode] = Side(mode, port, **sizes)
        manager = self.sides[mode].manager
        return {"port": manager.rank_port, "session": manager.get_session_id()}

    def put(self, pages: list[int], kv: str) -> None:
        """Bytes of shape (buffers, pages, page, heads, head_dim), for the prefill to send."""
        buffers = self.sides["prefill"].buffers
        given = torch.frombuffer(bytearray(base64.b64decode(kv)), dtype=torch.uint8)
        for buffer, part in zip(buffers, given.view(len(buffers), len(pages), -1), strict=True):
            buffer.view(PAGES, -1)[pages] = part

    def pages(self, pages: list[int]) -> str:
        """What the decode has there, in the same shape."""
        found = torch.stack([buffer[pages] for buffer in self.sides["decode"].buffers])
        return base64.b64encode(found.numpy().tobytes()).decode()

    def send(self, room: int, address: str, pages: list[int], slot: int, token: int, written_room: int) -> None:
        side = self.sides["prefill"]
        sender = MooncakeKVSender(side.manager, address, room)
        self.rooms[room] = sender
        assert harness.wait_until(lambda: sender.poll() == 2, within=40) is not None, sender.poll()
        side.metadata.output_ids[slot][0] = token
        side.metadata.bootstrap_room[slot, 0] = written_room
        sender.init(len(pages), slot)
        sender.send(np.array(pages[:1], dtype=np.int32))
        sender.send(np.array(pages[1:], dtype=np.int32))

    def receive(self, room: int, address: str, pages: list[int], slot: int) -> None:
        side = self.sides["decode"]
        assert harness.is_ready(side.manager, address)
        side.metadata.clear_slot(slot)
        receiver = MooncakeKVReceiver(side.manager, address, room)
        receiver.init(0)
        receiver.send_metadata(np.array(pages, dtype=np.int32), slot)
        self.rooms[room] = receiver

    def poll(self, room: int) -> int:
        return int(self.rooms[room].poll())

    def aborted(self, room: int, acks: int) -> list[Any]:
        """The decode gives the room up; -> whether so many prefill ranks have acknowledged within 40 s."""
        receiver, manager = self.rooms[room], self.sides["decode"].manager
        receiver.abort()
        settled = harness.wait_until(lambda: manager.is_abort_release_safe(room, acks), within=40)
        return [int(receiver.poll()), settled is not None]

    def got(self, slot: int) -> list[int]:
        metadata = self.sides["decode"].metadata
        return [int(metadata.output_ids[slot][0]), int(metadata.bootstrap_room[slot][0])]

    def says(self, room: int, pages: list[int], slot: int) -> list[list[str]]:
        """The frames that its decode manager builds."""
        manager = self.sides["decode"].manager
        ask = {"bootstrap_room": room, "required_dst_info_num": 2, "kv_indices": np.array(pages, dtype=np.int32)}
        more = {"aux_index": slot, "state_indices": [[1, 2], []], "decode_prefix_len": 4}
        messages = [
            manager.build_receiver_registration_message(),
            manager.build_receiver_metadata_message(**ask, **more, is_dummy=False),
            manager.build_receiver_metadata_message(**ask, **more, is_dummy=True),
        ]
        return [[base64.b64encode(frame).decode() for frame in frames] for frames in messages]


def read_back(frames: list[bytes]) -> Any:
    return (KVArgsRegisterInfo if frames[0] == b"None" else TransferInfo).from_zmq(frames)


def fields(value: Any) -> dict[str, Any]:
    return json.loads(json.dumps(dataclasses.asdict(value), default=lambda array: array.tolist()))


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    peer = Peer()
    answers.write("READY\n")
    for line in sys.stdin:
        try:
            ((name, arguments),) = json.loads(line).items()
            said = getattr(peer, name)(**arguments)
            answer = {"said": said}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        answers.write("ANSWER " + json.dumps(answer) + "\n")
    # SGLang's ZeroMQ contexts would wait for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
