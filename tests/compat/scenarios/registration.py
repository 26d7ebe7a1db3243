"""Prefill ranks register; decode ranks find them, down to the frames on their sockets."""

import threading
from collections.abc import Iterator
from typing import Any

from sglang.srt.disaggregation.base.conn import KVPoll

from tests.compat import harness
from tests.compat.harness import Prefill, Shape

TOPOLOGY = ("attn_tp_size", "attn_cp_size", "dp_size", "pp_size", "page_size", "follow_bootstrap_room")
TARGETS = ("target_tp_ranks", "target_cp_ranks", "target_pp_ranks")


def register_and_resolve(port: int, shape: dict[str, int]) -> Iterator[dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(**shape), port)
    decodes = [harness.decode_rank(tp=prefill.shape.tp, rank=rank) for rank in range(prefill.shape.tp)]
    first, *_ = decodes
    *most, last = prefill.shape.slots
    for slot in most:
        prefill.register(slot)
    open_while_incomplete = bool(most) and first.try_ensure_parallel_info(address)
    prefill.register(last)
    if not harness.is_ready(first, address):
        yield {"open_while_incomplete": open_while_incomplete, "ready_when_complete": False}
        return
    info = first.prefill_info_table[address]
    yield {
        "open_while_incomplete": open_while_incomplete,
        "ready_when_complete": True,
        "topology": {name: getattr(info, name) for name in TOPOLOGY},
        "targets": {name: getattr(info, name) for name in TARGETS},
        "wrong_look_ups": _wrong_look_ups(prefill, address),
        **_set_up_receivers(prefill, decodes, address),
    }


def _wrong_look_ups(prefill: Prefill, address: str) -> list[Any]:
    """Every slot, whoever's target it is, must lead to the socket of its own rank."""
    wrong = []
    for (dp, cp, tp, pp), rank in prefill.ranks.items():
        found = harness.look_up(address, (dp, cp, tp, pp))
        if found != {"rank_ip": "127.0.0.1", "rank_port": rank.rank_port, "pp_rank": pp}:
            wrong.append([(dp, cp, tp, pp), rank.rank_port, found])
    return wrong


def _set_up_receivers(prefill: Prefill, decodes: list[Any], address: str) -> dict[str, Any]:
    expected = dict.fromkeys(prefill.ranks, 0)
    not_set_up, wrong_order = [], []
    for decode in decodes:
        assert decode.try_ensure_parallel_info(address)
        info = decode.prefill_info_table[address]
        for dp in range(prefill.shape.groups):
            receiver = harness.receive(decode, address, room=1000 + dp, dp=dp)
            if receiver.poll() != KVPoll.WaitingForInput:
                not_set_up.append([dp, decode.kv_args.engine_rank, decode.failure_records.get(1000 + dp)])
                continue
            targets = [
                (dp, cp, tp, pp)
                for cp in info.target_cp_ranks
                for tp in info.target_tp_ranks
                for pp in reversed(info.target_pp_ranks)
            ]
            asked = [found["rank_port"] for found in receiver.bootstrap_infos]
            if asked != [prefill.ranks[slot].rank_port for slot in targets]:
                wrong_order.append([dp, decode.kv_args.engine_rank, asked])
            for slot in targets:
                expected[slot] += 1
    arrived = {slot: prefill.frames(slot) for slot in prefill.ranks}
    own = [[b"None", b"127.0.0.1", str(d.rank_port).encode(), harness.SESSION] for d in decodes]
    return {
        "not_set_up": not_set_up,
        "wrong_order": wrong_order,
        "frames": {str(slot): len(messages) for slot, messages in arrived.items()},
        "frames_expected": {str(slot): count for slot, count in expected.items()},
        "strange_frames": [repr(m) for messages in arrived.values() for m in messages if m not in own],
    }


def register_one_rank_twice(port: int) -> Iterator[dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(tp=2), port)
    rank = prefill.register((0, 0, 0, 0))
    with harness.published(disaggregation_bootstrap_port=port):
        rank.register_to_bootstrap()
    decode = harness.decode_rank(tp=2, rank=1)
    opened = harness.is_ready(decode, address, within=1)
    facts: dict[str, Any] = {"opened_by_a_duplicate": opened}
    if opened:
        receiver = harness.receive(decode, address, room=9)
        facts["request_failed"] = receiver.poll() == KVPoll.Failed
    prefill.register((0, 0, 1, 0))
    late = harness.decode_rank(tp=2, rank=1)
    yield {**facts, "ready_when_complete": harness.is_ready(late, address)}


def register_before_the_server_is_there(port: int) -> Iterator[dict[str, Any]]:
    """The real client tries five times in about 12 s; the test starts the server after the first."""
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(), port)
    # SGLang's context is the process's, and the test starts servers meanwhile from the main thread.
    registering = threading.Thread(target=prefill.register_all, daemon=True)
    registering.start()
    yield {"registering": registering.is_alive()}
    registering.join(20)
    decode = harness.decode_rank()
    yield {"ready_when_complete": harness.is_ready(decode, address)}
