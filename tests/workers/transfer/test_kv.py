"""KV pages of real tensors, split one way by the prefill and another way by the decode, arrive bit for bit."""

import itertools

import pytest
import torch

from tests.workers.transfer.ranks import ask, assert_has, instance, put_share, whole_kv
from workers.messaging.replies import Poll
from workers.transfer.decode import DecodeSide
from workers.transfer.layout import KvShape, Order
from workers.transfer.pool import shape_of
from workers.transfer.prefill import PrefillSide

TOKENS = 21


def transfer(
    shape: KvShape, dtype: torch.dtype, backend: str, prefill: tuple[int, int], decode: tuple[int, int], **more: object
) -> None:
    """One request through all ranks of both instances; (tp, pp) each."""
    whole = whole_kv(shape, dtype, TOKENS, seed=5)
    pages_needed = -(-TOKENS // shape.page_size)
    with (
        instance(PrefillSide, shape, dtype, backend, tp=prefill[0], pp=prefill[1], checksums=True, **more) as senders,
        instance(DecodeSide, shape, dtype, backend, tp=decode[0], pp=decode[1], **more) as receivers,
    ):
        # Other pages on either side, and not in order.
        for each in receivers.values():
            each.side.pages.give_back(reversed(each.side.pages.take(each.side.pages.size - 1)))
        room = 2**62 + 7
        asked = ask(receivers, senders, room, pages_needed)
        for each in senders.values():
            sender = each.side.open(room)
            assert sender.wait_until_asked(60) is not Poll.FAILED, sender.reason
            pages = each.side.pages.take(pages_needed)
            put_share(each, whole, pages, 0, TOKENS)
            sender.send(pages[:2])
            sender.finish(pages[2:], metadata={"output_ids": [1234]})
            assert sender.wait(60) is Poll.SUCCESS, sender.reason
            assert sender.close() is Poll.SUCCESS
            assert each.side.pages.free == each.side.pages.size
        for at, receiver in asked.items():
            assert receiver.wait(60) is Poll.SUCCESS, receiver.state
            assert receiver.metadata()["output_ids"][0] == 1234
            assert_has(receivers[at], whole, receiver.pages)
            assert receiver.close().settled
            assert receivers[at].side.pages.free == receivers[at].side.pages.size
            assert receivers[at].side.slots.free == receivers[at].side.slots.size


def mha(dtype: torch.dtype = torch.float16, **changes: object) -> KvShape:
    return shape_of(**{"layers": 4, "heads": 4, "head_dim": 8, "dtype": dtype, "page_size": 4, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("prefill", "decode"), list(itertools.product([1, 2, 4], repeat=2)))
def test_every_pair_of_tp_sizes(prefill, decode):
    transfer(mha(), torch.float16, "zmq", (prefill, 1), (decode, 1))


@pytest.mark.parametrize(
    ("prefill", "decode"), [((1, 2), (1, 1)), ((2, 2), (2, 1)), ((2, 2), (1, 2)), ((1, 2), (2, 1))]
)
def test_pipeline_stages(prefill, decode):
    transfer(mha(layers=5), torch.float16, "zmq", prefill, decode)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(("prefill", "decode"), [(4, 1), (1, 4), (4, 2), (2, 4), (4, 4)])
def test_heads_that_lie_on_several_ranks(heads, prefill, decode):
    transfer(mha(heads=heads), torch.float16, "zmq", (prefill, 1), (decode, 1))


@pytest.mark.parametrize(
    ("prefill", "decode"), [((1, 1), (1, 1)), ((4, 1), (2, 1)), ((1, 2), (4, 1)), ((2, 2), (2, 2))]
)
def test_mla_is_whole_on_every_rank_and_sent_by_one(prefill, decode):
    shape = shape_of(layers=4, heads=1, head_dim=72, dtype=torch.bfloat16, page_size=8, is_mla=True)
    transfer(shape, torch.bfloat16, "zmq", prefill, decode)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8], ids=str)
@pytest.mark.parametrize("order", list(Order))
def test_types_orders_and_page_sizes(dtype, order):
    page_size = 16 if order is Order.NHD else 1
    transfer(mha(dtype, order=order, page_size=page_size), dtype, "zmq", (2, 1), (1, 1))


@pytest.mark.parametrize(
    ("prefill", "decode", "is_mla"),
    [((1, 1), (1, 1), False), ((2, 1), (1, 1), False), ((1, 2), (2, 1), False), ((2, 1), (1, 1), True)],
)
def test_a_sample_through_mooncake(prefill, decode, is_mla):
    heads = 1 if is_mla else 4
    transfer(mha(heads=heads, is_mla=is_mla), torch.float16, "mooncake", prefill, decode)


@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_ipv6(backend):
    transfer(mha(), torch.float16, backend, (1, 1), (1, 1), host="::1")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
@pytest.mark.parametrize(("prefill_tp", "decode_tp"), list(itertools.product([1, 2, 4], repeat=2)))
@pytest.mark.parametrize(("prefill_pp", "decode_pp"), [(1, 1), (2, 1), (2, 2)])
def test_all_splits_on_all_backends(backend, prefill_tp, decode_tp, prefill_pp, decode_pp):
    for order in Order:
        transfer(mha(order=order), torch.float16, backend, (prefill_tp, prefill_pp), (decode_tp, decode_pp))
