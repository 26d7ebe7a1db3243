"""SGLang's real classes on the other side: frames read back, slices compared, KV sent and received both ways."""

import base64
import time
from typing import Any

import httpx
import pytest
import torch

from tests.support.ports import free_port
from tests.workers.transfer.conftest import SGLangPeer
from tests.workers.transfer.ranks import Rank, rank
from workers.messaging.endpoint import Endpoint
from workers.messaging.replies import Poll
from workers.messaging.requests import KvRequest, Registration, read_request
from workers.transfer.decode import DecodeSide
from workers.transfer.layout import Place, Share
from workers.transfer.metadata import sglang_fields
from workers.transfer.pool import shape_of
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Source
from workers.transfer.receiving import Failure
from workers.transfer.slicing import head_slice

SIZES = {"layers": 2, "heads": 4, "head_dim": 8, "page": 4}
SHAPE = shape_of(layers=2, heads=4, head_dim=8, dtype=torch.uint8, page_size=4)
HIDDEN_BYTES = 32 * 4
HERE = Endpoint("127.0.0.1", 40001)


def encoded(frames: list[bytes]) -> list[str]:
    return [base64.b64encode(frame).decode() for frame in frames]


def test_the_registration_that_we_say_is_what_sglang_reads(sglang_peer):
    said = Registration(
        endpoint=HERE,
        session="127.0.0.1:17000",
        kv_pointers=(2**47, 2**47 + 4096),
        aux_pointers=(5, 2**63),
        tp_rank=3,
        tp_size=4,
        kv_item_len=8192,
        kv_item_lens=(8192, 4096),
        kv_layer_ids=(7, 8),
        state_pointers=((1, 2), ()),
        state_item_lens=((64,), ()),
        state_layer_ids=((9,),),
        dcp_size=2,
        dcp_rank=1,
    )
    (read,) = sglang_peer.ask("read", messages=[encoded(said.frames())])
    expected = {
        "room": "None",
        "endpoint": "127.0.0.1",
        "dst_port": 40001,
        "mooncake_session_id": "127.0.0.1:17000",
        "dst_kv_ptrs": [2**47, 2**47 + 4096],
        "dst_aux_ptrs": [5, 2**63],
        "dst_state_data_ptrs": [[1, 2], []],
        "dst_tp_rank": 3,
        "dst_attn_tp_size": 4,
        "dst_kv_item_len": 8192,
        "dst_kv_item_lens": [8192, 4096],
        "dst_kv_layer_ids": [7, 8],
        "dst_state_item_lens": [[64], []],
        "dst_state_layer_ids": [[9]],
        "dst_dcp_size": 2,
        "dst_dcp_rank": 1,
        "staging": None,
    }
    assert {name: read[name] for name in expected} == expected


def test_the_request_that_we_say_is_what_sglang_reads(sglang_peer):
    common = {"room": 2**63 - 1, "endpoint": HERE, "session": "127.0.0.1:17000", "required_dst_info_num": 2}
    real = KvRequest(
        **common, pages=(4, 0, 9), aux_index=5, state_indices=((1,), ()), decode_prefix_len=8, attempt="ab"
    )
    dummy = KvRequest(**common, is_dummy=True, attempt="ab")
    read = sglang_peer.ask("read", messages=[encoded(real.frames()), encoded(dummy.frames())])
    assert [each["room"] for each in read] == [2**63 - 1] * 2
    assert [each["is_dummy"] for each in read] == [False, True]
    assert [each["required_dst_info_num"] for each in read] == [2, 2]
    assert read[0]["dst_kv_indices"] == [4, 0, 9]
    assert read[0]["dst_aux_index"] == 5
    assert read[0]["dst_state_indices"] == [[1], []]
    assert read[0]["decode_prefix_len"] == 8
    assert read[0]["dst_device_kv_indices"] is None


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_head_slices_are_sglangs(sglang_peer, heads):
    for source_tp, target_tp, source, target, start, count, at in sglang_peer.ask("slices", heads=heads):
        if source_tp != target_tp:
            part = head_slice(
                source_rank=source, source_tp=source_tp, target_rank=target, target_tp=target_tp, heads=heads
            )
            assert (part.source, part.count, part.target) == (start, count, at)


@pytest.mark.parametrize("layers", [4, 5, 6, 7])
def test_pipeline_stages_are_sglangs(sglang_peer, layers):
    whole = shape_of(layers=layers, heads=1, head_dim=1, dtype=torch.uint8, page_size=1)
    for size, stage, first, end in sglang_peer.ask("stages", layers=layers):
        assert Share(whole, Place(pp_rank=stage, pp_size=size)).layers == range(first, end)


def ours(kind: type, place: Place) -> Rank:
    return rank(kind, SHAPE, place, torch.uint8, "mooncake", fields=sglang_fields(hidden_bytes=HIDDEN_BYTES))


def kv(seed: int, pages: int, heads: int) -> torch.Tensor:
    """(buffers, pages, page size, heads, head_dim)"""
    generator = torch.Generator().manual_seed(seed)
    shape = (2 * SHAPE.layers, pages, SHAPE.page_size, heads, SHAPE.head_dim)
    return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)


def until(peer: SGLangPeer, room: int, poll: int) -> None:
    end = time.monotonic() + 60
    while (seen := peer.ask("poll", room=room)) != poll:
        assert seen != 0, "SGLang says that the room failed"
        assert time.monotonic() < end, f"SGLang says {seen}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def sglang_prefill(sglang_peer):
    """-> (the port of its bootstrap server, where its one rank listens)"""
    port = free_port()
    sglang_peer.ask("serve", port=port)
    return port, sglang_peer.ask("start", mode="prefill", port=port, **SIZES)


@pytest.mark.parametrize("tp", [1, 2])
def test_sglangs_prefill_manager_sends_kv_to_our_decode(sglang_peer, sglang_prefill, tp):
    """With TP 2 at the decode, each of two ranks of ours gets its half of the heads from one rank of SGLang's."""
    peer, (port, listens) = sglang_peer, sglang_prefill
    source = Source(Endpoint("127.0.0.1", listens["port"]), Place())
    decodes = [ours(DecodeSide, Place(tp_rank=at, tp_size=tp)) for at in range(tp)]
    try:
        whole = kv(1, 3, SHAPE.heads)
        peer.ask("put", pages=[5, 1, 9], kv=base64.b64encode(whole.numpy().tobytes()).decode())
        base = 2**62 + 10 * tp
        for room, written in ((base + 1, base + 1), (base + 2, 77)):
            receivers = [
                each.side.open(room, [source], each.side.pages.take(3), required_dst_info_num=tp, timeout=60)
                for each in decodes
            ]
            address = f"127.0.0.1:{port}"
            peer.ask("send", room=room, address=address, pages=[5, 1, 9], slot=3, token=42, written_room=written)
            for at, (each, receiver) in enumerate(zip(decodes, receivers, strict=True)):
                poll = receiver.wait(60)
                if written != room:
                    assert poll is Poll.FAILED
                    assert receiver.close().failure is Failure.OTHER_ROOM
                    continue
                assert poll is Poll.SUCCESS, receiver.state
                assert receiver.metadata()["output_ids"][0] == 42
                mine = slice(at * SHAPE.heads // tp, (at + 1) * SHAPE.heads // tp)
                for buffer, expected in zip(each.pool.buffers, whole, strict=True):
                    assert torch.equal(buffer[list(receiver.pages)], expected[:, :, mine])
                assert receiver.close().settled
            until(peer, room, 4)
        # An abort of ours is understood, and acknowledged in a way that we understand.
        receiver = decodes[0].side.open(
            base, [source], decodes[0].side.pages.take(3), required_dst_info_num=tp, timeout=60
        )
        receiver.abort()
        receiver.close()
        end = time.monotonic() + 30
        while decodes[0].side.pages.held:
            assert time.monotonic() < end, "the abort was not acknowledged"
            time.sleep(0.01)
    finally:
        for each in decodes:
            each.close()


@pytest.fixture(scope="module")
def sglang_decode(sglang_peer):
    return sglang_peer.ask("start", mode="decode", port=free_port(), **SIZES)


@pytest.mark.parametrize("tp", [1, 2])
def test_sglangs_receiver_gets_kv_from_our_prefill(sglang_peer, sglang_decode, tp):
    """With TP 2 at the prefill, two ranks of ours fill the pages of one rank of SGLang's."""
    peer, port = sglang_peer, free_port()
    peer.ask("serve", port=port)
    prefills = [ours(PrefillSide, Place(tp_rank=at, tp_size=tp)) for at in range(tp)]
    try:
        for each in prefills:
            register(port, each)
        whole = kv(2, 3, SHAPE.heads)
        room, address = 2**61 + 10 * tp, f"127.0.0.1:{port}"
        peer.ask("receive", room=room, address=address, pages=[7, 2, 30], slot=6)
        senders = []
        for at, each in enumerate(prefills):
            sender = each.side.open(room)
            assert sender.wait_until_asked(60) is Poll.WAITING_FOR_INPUT
            mine = slice(at * SHAPE.heads // tp, (at + 1) * SHAPE.heads // tp)
            pages = each.side.pages.take(3)
            for buffer, part in zip(each.pool.buffers, whole, strict=True):
                buffer[list(pages)] = part[:, :, mine]
            sender.send(pages[:1])
            sender.finish(pages[1:], metadata={"output_ids": [43]})
            assert sender.wait(60) is Poll.SUCCESS, sender.reason
            senders.append(sender)
        until(peer, room, 4)
        assert peer.ask("got", slot=6) == [43, room]
        found = base64.b64decode(peer.ask("pages", pages=[7, 2, 30]))
        assert found == whole.numpy().tobytes()
        for sender in senders:
            assert sender.close() is Poll.SUCCESS
        its_abort_is_understood(peer, prefills, address, room)
    finally:
        for each in prefills:
            each.close()


def its_abort_is_understood(peer: SGLangPeer, prefills: list[Rank], address: str, room: int) -> None:
    peer.ask("receive", room=room + 1, address=address, pages=[7], slot=5)
    senders = [each.side.open(room + 1) for each in prefills]
    assert all(sender.wait_until_asked(60) is Poll.WAITING_FOR_INPUT for sender in senders)
    assert peer.ask("aborted", room=room + 1, acks=len(prefills)) == [0, True]
    for sender in senders:
        assert sender.wait(60) is Poll.FAILED
        sender.close()
    # And a failure of ours is one there.
    peer.ask("receive", room=room + 2, address=address, pages=[7], slot=5)
    sender = prefills[0].side.open(room + 2)
    assert sender.wait_until_asked(60) is Poll.WAITING_FOR_INPUT
    sender.close()
    end = time.monotonic() + 30
    while peer.ask("poll", room=room + 2) != 0:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_sglangs_decode_manager_says_is_what_we_read(sglang_peer, sglang_decode):
    registration, request, dummy = (
        read_request([base64.b64decode(frame) for frame in frames])
        for frames in sglang_peer.ask("says", room=77, pages=[4, 0], slot=3)
    )
    assert isinstance(registration, Registration)
    assert (registration.tp_rank, registration.tp_size, len(registration.kv_pointers)) == (0, 1, 2 * SHAPE.layers)
    assert registration.kv_item_lens == (SHAPE.page_size * SHAPE.heads * SHAPE.head_dim,) * 4
    assert len(registration.aux_pointers) == len(sglang_fields())
    assert isinstance(request, KvRequest)
    assert (request.room, request.pages, request.aux_index, request.required_dst_info_num) == (77, (4, 0), 3, 2)
    assert (request.state_indices, request.decode_prefix_len, request.is_dummy) == (((1, 2), ()), 4, False)
    assert isinstance(dummy, KvRequest)
    assert dummy.is_dummy


def register(port: int, each: Rank[Any]) -> None:
    """What the SDK does: PUT /route."""
    place, endpoint = each.pool.share.place, each.side.endpoint
    body = {
        "attn_tp_size": place.tp_size,
        "attn_tp_rank": place.tp_rank,
        "attn_cp_size": 1,
        "attn_cp_rank": 0,
        "attn_dp_size": 1,
        "attn_dp_rank": 0,
        "pp_size": 1,
        "pp_rank": 0,
        "system_dp_size": 1,
        "system_dp_rank": 0,
        "rank_ip": endpoint.host,
        "rank_port": endpoint.port,
        "page_size": SHAPE.page_size,
        "kv_cache_dtype": "auto",
        "load_balance_method": "follow_bootstrap_room",
    }
    assert httpx.put(f"http://127.0.0.1:{port}/route", json=body, trust_env=False).status_code == 200
