"""Layouts, slices, blocks, stocks, checksums, memory: everything that decides without a socket."""

import doctest
import importlib
import itertools
import subprocess
import sys

import pytest

from controlplane.domain.errors import Refused
from tests.support.processes import ROOT, clean_env
from workers.transfer.blocks import joined, pieces, total
from workers.transfer.checksums import checksum, received_ranges, sent_ranges
from workers.transfer.errors import BadBlocks, NothingFree, TransferError
from workers.transfer.layout import KvShape, Order, Place, Share
from workers.transfer.memory import Borrowed, Regions, Segment, view_at
from workers.transfer.metadata import MetadataSlots, sglang_fields
from workers.transfer.slicing import Target, entry_pairs, head_slice, page_blocks
from workers.transfer.stock import Stock

HEAVY = ("torch", "numpy", "mooncake", "aiohttp", "django")
MODULES = ["blocks", "fake", "layout", "metadata", "receiving", "sending", "slicing", "sources", "stock"]
MESSAGING = ["endpoint", "packing"]


@pytest.mark.parametrize("name", [f"transfer.{name}" for name in MODULES] + [f"messaging.{name}" for name in MESSAGING])
def test_the_examples_in_the_docstrings_are_true(name):
    module = importlib.import_module(f"workers.{name}")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def test_a_host_without_torch_and_mooncake_can_import_both_packages_and_has_the_portable_backend():
    code = (
        "import sys, workers.messaging, workers.transfer as t\n"
        "t.open_engine('zmq', '127.0.0.1').close(); t.open_engine('fake', '127.0.0.1').close()\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=clean_env(), cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def shape(**changes) -> KvShape:
    return KvShape(**{"layers": 4, "heads": 8, "head_dim": 4, "item_size": 2, "page_size": 4, **changes})


def target_of(share: Share, base: int, pages: int) -> Target:
    return Target(
        tp_rank=share.place.tp_rank,
        tp_size=share.place.tp_size,
        kv_pointers=share.pointers(base, pages),
        kv_item_len=share.item_len,
    )


SIZES = [1, 2, 4, 8]


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_every_head_of_every_decode_rank_is_sent_and_comes_from_who_keeps_it(heads):
    for source_tp, target_tp in itertools.product(SIZES, SIZES):
        whole = shape(heads=heads)
        for target_rank in range(target_tp):
            target = Share(whole, Place(tp_rank=target_rank, tp_size=target_tp))
            filled: dict[int, int] = {}
            for source_rank in senders(target_rank, target_tp, source_tp):
                source = Share(whole, Place(tp_rank=source_rank, tp_size=source_tp))
                part = (
                    head_slice(
                        source_rank=source_rank,
                        source_tp=source_tp,
                        target_rank=target_rank,
                        target_tp=target_tp,
                        heads=heads,
                    )
                    if source_tp != target_tp
                    else None
                )
                first, count, at = (part.source, part.count, part.target) if part else (0, source.heads, 0)
                for step in range(count):
                    filled[at + step] = source.first_head + first + step
            assert filled == {place: target.first_head + place for place in range(target.heads)}


def senders(target_rank: int, target_tp: int, source_tp: int) -> range:
    """The prefill ranks that a decode rank asks (see controlplane.domain.rankmap)."""
    if target_tp >= source_tp:
        one = target_rank * source_tp // target_tp
        return range(one, one + 1)
    ratio = source_tp // target_tp
    return range(target_rank * ratio, (target_rank + 1) * ratio)


@pytest.mark.parametrize("is_mla", [False, True])
def test_a_decode_of_one_stage_takes_each_layer_from_the_prefill_stage_that_keeps_it(is_mla):
    whole = shape(heads=1 if is_mla else 8, layers=5, is_mla=is_mla)
    decode = Share(whole, Place())
    covered = []
    for stage in range(2):
        prefill = Share(whole, Place(pp_rank=stage, pp_size=2))
        pairs = entry_pairs(prefill, target_of(decode, 0, 3))
        assert [own for own, _ in pairs] == list(range(prefill.buffers))
        covered += [theirs for _, theirs in pairs]
    assert sorted(covered) == list(range(decode.buffers))


def test_layer_ids_of_the_decode_are_followed():
    prefill = Share(shape(layers=4), Place(pp_rank=1, pp_size=2))
    ids = Target(tp_rank=0, tp_size=1, kv_pointers=range(8), kv_item_len=1, kv_layer_ids=[3, 2, 1, 0, 3, 2, 1, 0])
    assert entry_pairs(prefill, ids) == [(0, 1), (1, 0), (2, 5), (3, 4)]
    with pytest.raises(Refused, match="no KV buffer for layer 3"):
        entry_pairs(prefill, Target(tp_rank=0, tp_size=1, kv_pointers=range(2), kv_item_len=1, kv_layer_ids=[2, 2]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kv_item_len": 63}, "page size, dtype or heads differ"),
        ({"kv_pointers": range(7)}, "7 KV buffers"),
        ({"kv_pointers": range(4)}, "4 KV buffers"),
        ({"tp_size": 2, "kv_item_len": 256}, "4 of 8 heads make 128"),
    ],
)
def test_a_decode_rank_that_keeps_kv_otherwise_is_refused_with_a_sentence(change, says):
    share = Share(shape(), Place())
    target = Target(**{"tp_rank": 0, "tp_size": 1, "kv_pointers": range(8), "kv_item_len": share.item_len, **change})
    with pytest.raises(Refused, match=says):
        page_blocks(share, share.pointers(0, 4), target, [0], [1])


def test_pages_that_follow_one_another_on_both_sides_are_one_block_a_buffer():
    share = Share(shape(), Place())
    target = target_of(share, 10**6, 8)
    assert len(page_blocks(share, share.pointers(0, 8), target, [2, 3, 4], [5, 6, 7])) == share.buffers
    assert len(page_blocks(share, share.pointers(0, 8), target, [2, 4, 3], [5, 6, 7])) == 3 * share.buffers


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(("source_tp", "target_tp"), [(1, 1), (2, 1), (1, 2), (4, 2), (2, 8)])
def test_bytes_that_are_written_by_the_blocks_are_the_bytes_of_the_checksums(order, source_tp, target_tp):
    whole = shape(heads=2, order=order)
    source, target = Share(whole, Place(tp_size=source_tp)), Share(whole, Place(tp_size=target_tp))
    ours, theirs = Segment(source.pool_bytes(6)), Segment(target.pool_bytes(6))
    ours.view()[:] = bytes(place * 7 % 251 for place in range(ours.length))
    there = target_of(target, theirs.address, 6)
    pointers = source.pointers(ours.address, 6)
    for local, remote, length in page_blocks(source, pointers, there, [1, 4], [5, 0]):
        assert ours.address <= local and local + length <= ours.address + ours.length
        assert theirs.address <= remote and remote + length <= theirs.address + theirs.length
        view_at(remote, length)[:] = view_at(local, length)
    for page, target_page in ((1, 5), (4, 0)):
        sent = checksum(sent_ranges(source, pointers, there, page))
        assert checksum(received_ranges(source, there, target_page)) == sent
        address, _ = received_ranges(source, there, target_page)[0]
        view_at(address, 1)[0] ^= 1
        assert checksum(received_ranges(source, there, target_page)) != sent


def test_blocks_are_joined_and_cut_without_losing_a_byte():
    blocks = [(at * 10, 1000 + at * 10, 10) for at in range(50)] + [(5000, 9000, 77), (0, 0, 0)]
    assert joined(blocks) == [(0, 1000, 500), (5000, 9000, 77)]
    cut = list(pieces(blocks, most_bytes=64, most=3))
    assert all(total(piece) <= 64 and len(piece) <= 3 for piece in cut)
    assert joined(block for piece in cut for block in piece) == joined(blocks)


@pytest.mark.parametrize(
    "wrong", [{"heads": 0}, {"page_size": -1}, {"is_mla": True, "heads": 2}, {"layers": 0}, {"item_size": 0}]
)
def test_sizes_that_make_no_sense_are_refused(wrong):
    with pytest.raises(Refused):
        shape(**wrong)


def test_places_and_splits_that_do_not_exist_are_refused():
    for wrong in ({"tp_rank": 2, "tp_size": 2}, {"pp_rank": -1}, {"cp_rank": 1}):
        with pytest.raises(Refused):
            Place(**wrong)
    with pytest.raises(Refused, match="neither divides"):
        Share(shape(heads=8), Place(tp_size=3))
    with pytest.raises(Refused, match="PP 5"):
        Share(shape(layers=4), Place(pp_size=5))


def test_a_stock_gives_nothing_twice_and_what_is_held_only_after_it_is_settled():
    stock = Stock(4, "KV pages")
    first = stock.take(3)
    with pytest.raises(NothingFree, match="2 KV pages were asked for, 1 of 4 are free and 0 are in quarantine"):
        stock.take(2)
    stock.hold("a", first[:2])
    stock.give_back(first[2:])
    assert (stock.free, stock.held) == (2, 2)
    assert set(stock.take(2)) == {2, 3}
    with pytest.raises(NothingFree, match="2 are in quarantine"):
        stock.take()
    stock.settle("unknown")
    stock.settle("a")
    assert (stock.free, stock.held) == (2, 0)
    for wrong in ([0], [2, 2], [99]):
        with pytest.raises(ValueError, match="not taken"):
            stock.give_back(wrong)


def test_a_segment_is_shared_by_its_descriptor_and_names_what_keeps_it_open():
    segment = Segment(10_000)
    again = Segment(10_000, fd=segment.fileno())
    segment.view(5, 3)[:] = b"abc"
    assert bytes(again.view(5, 3)) == b"abc" == bytes(view_at(again.address + 5, 3))
    view = segment.view()
    with pytest.raises(TransferError, match="still in use"):
        segment.close()
    view.release()
    again.buffer.close()
    segment.close()
    segment.close()
    for offset, length in ((-1, 2), (9_999, 2), (0, 10_001)):
        with pytest.raises(BadBlocks):
            Segment(10_000).view(offset, length)
    with pytest.raises(TransferError):
        Segment(0)


def test_only_registered_memory_is_found_and_no_two_regions_overlap():
    regions = Regions()
    one, two = Borrowed(1000, 100), Borrowed(2000, 100)
    regions.add(one)
    regions.add(two, base=500_000)
    assert regions.translate(1050, 50) == 1050
    assert regions.translate(500_010, 90) == 2010
    for address, length in ((1050, 51), (999, 5), (2000, 1), (1000, 0), (500_000, 2**63)):
        with pytest.raises(BadBlocks, match="not within registered memory"):
            regions.translate(address, length)
    with pytest.raises(BadBlocks, match="overlaps"):
        regions.add(Borrowed(1099, 5))
    regions.drop(one)
    regions.add(Borrowed(1099, 5))
    with pytest.raises(BadBlocks):
        regions.drop(one)


def test_metadata_is_kept_by_slot_and_the_room_travels_alone_and_last():
    slots = MetadataSlots(3, sglang_fields(hidden_bytes=128))
    slots.write(1, {"output_ids": [42], "output_token_logprobs_val": [-0.5], "cached_tokens": [1, 2, 3, 4]})
    slots.set_room(1, 2**63 - 1)
    assert slots.room(1) == 2**63 - 1
    assert [slots.room(0), slots.room(2)] == [0, 0]
    found = slots.read(1)
    assert found["output_ids"] == (42, *[0] * 15)
    assert found["cached_tokens"][:5] == (1, 2, 3, 4, 0)
    rest, room = slots.blocks(1, slots.pointers(10**6), 2)
    assert len(rest) == len(slots.fields) - 1
    assert room[0][2] == 64
    assert [remote for _, remote, _ in rest + room] == [
        pointer + 2 * length for pointer, length in zip(slots.pointers(10**6), slots.item_lens, strict=True)
    ]
    slots.clear(1)
    assert slots.room(1) == 0
    with pytest.raises(BadBlocks, match="none for the room"):
        slots.blocks(1, slots.pointers(0)[:3], 0)
    with pytest.raises(BadBlocks):
        slots.room(3)
    with pytest.raises(Refused):
        slots.write(0, {"bootstrap_room": [1]})
    with pytest.raises(Refused, match="place for 16"):
        slots.write(0, {"output_ids": [0] * 17})
    slots.close()
