"""Which bytes a prefill rank owes a decode rank, when they split heads and layers differently.

Source: `compute_head_slice_params` in sglang/srt/disaggregation/common/staging_buffer.py; `get_mha_kv_ptrs_with_pp` and
`get_mla_kv_ptrs_with_pp` in common/conn.py; `send_kvcache_slice` in mooncake/conn.py; `build_transfer_entry_pairs` in utils.py
(0.5.23). Where SGLang logs and returns −1, this refuses with a sentence.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.domain.errors import Refused
from workers.transfer.blocks import Block, joined
from workers.transfer.layout import Order, Share


@dataclass(frozen=True, slots=True)
class HeadSlice:
    """`count` heads, the first of them at `source` in the prefill's pages and at `target` in the decode's."""

    source: int
    count: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The decode rank's side, as its registration tells it."""

    tp_rank: int
    tp_size: int
    kv_pointers: Sequence[int]
    kv_item_len: int
    kv_item_lens: Sequence[int] = ()
    kv_layer_ids: Sequence[int] = ()

    def item_len(self, buffer: int) -> int:
        return self.kv_item_lens[buffer] if self.kv_item_lens else self.kv_item_len


def head_slice(*, source_rank: int, source_tp: int, target_rank: int, target_tp: int, heads: int) -> HeadSlice:
    """
    Prefill TP 4, decode TP 2, 8 heads: prefill rank 3 fills the second half of decode rank 1.

    >>> head_slice(source_rank=3, source_tp=4, target_rank=1, target_tp=2, heads=8)
    HeadSlice(source=0, count=2, target=2)

    Prefill TP 1, decode TP 4, 2 heads: decode ranks 2 and 3 both keep head 1.

    >>> head_slice(source_rank=0, source_tp=1, target_rank=3, target_tp=4, heads=2)
    HeadSlice(source=1, count=1, target=0)
    """
    source_heads, target_heads = max(1, heads // source_tp), max(1, heads // target_tp)
    source_rank, target_rank = source_rank % source_tp, target_rank % target_tp
    if source_tp > target_tp:
        unique = source_rank // max(1, source_tp // heads)
        return HeadSlice(0, source_heads, unique * source_heads % target_heads)
    unique = target_rank // max(1, target_tp // heads)
    return HeadSlice(unique * target_heads % source_heads, target_heads, 0)


def entry_pairs(share: Share, target: Target) -> list[tuple[int, int]]:
    """(own buffer, the decode's buffer) for every layer of this stage.

    The decode keeps the same layers, or all of them (PP 1). Layer ids of the decode are followed when it sends them.
    """
    own, theirs, layers = share.buffers, len(target.kv_pointers), share.layers
    if target.kv_layer_ids:
        return _pairs_by_id(share, target)
    if own == theirs:
        return [(buffer, buffer) for buffer in range(own)]
    per_layer = 1 if share.shape.is_mla else 2
    if theirs % per_layer or theirs // per_layer < layers.stop:
        raise Refused(
            f"the decode rank keeps {theirs} KV buffers; this prefill stage owes it layers {layers.start} to "
            f"{layers.stop - 1}, {per_layer} buffers each",
            code="layers_differ",
        )
    their_layers = theirs // per_layer
    return [
        (kind * len(layers) + place, kind * their_layers + layer)
        for kind in range(per_layer)
        for place, layer in enumerate(layers)
    ]


def page_blocks(
    share: Share, pointers: Sequence[int], target: Target, pages: Sequence[int], target_pages: Sequence[int]
) -> list[Block]:
    """What to write: own address, address at the decode, bytes; neighbours joined.

    `pointers`: where each of this rank's buffers begins. `pages` and `target_pages` belong together one by one.
    """
    if len(pages) != len(target_pages):
        raise Refused(f"{len(pages)} pages cannot go into {len(target_pages)}", code="pages_differ")
    found: list[Block] = []
    for own, theirs in entry_pairs(share, target):
        places = zip(pages, target_pages, strict=True)
        ranges = list(page_ranges(share, target, target.item_len(theirs)))
        found += joined(
            (
                pointers[own] + page * share.item_len + source,
                target.kv_pointers[theirs] + target_page * target.item_len(theirs) + at,
                length,
            )
            for page, target_page in places
            for source, at, length in ranges
        )
    return found


def page_ranges(share: Share, target: Target, target_item_len: int) -> Iterator[tuple[int, int, int]]:
    """(offset in an own page, offset in the decode's page, bytes) of what moves in one buffer."""
    shape, source_tp = share.shape, share.place.tp_size
    if shape.is_mla or source_tp == target.tp_size:
        if target_item_len != share.item_len:
            raise Refused(
                f"a page has {share.item_len} bytes here and {target_item_len} at the decode rank: page size, dtype or "
                "heads differ",
                code="pages_differ",
            )
        yield 0, 0, share.item_len
        return
    part = head_slice(
        source_rank=share.place.tp_rank,
        source_tp=source_tp,
        target_rank=target.tp_rank,
        target_tp=target.tp_size,
        heads=shape.heads,
    )
    target_heads = max(1, shape.heads // target.tp_size)
    one = shape.head_bytes
    if target_item_len != shape.page_size * target_heads * one:
        raise Refused(
            f"a page of the decode rank has {target_item_len} bytes, but {target_heads} of {shape.heads} heads make "
            f"{shape.page_size * target_heads * one}: page size, dtype or heads differ",
            code="pages_differ",
        )
    if shape.order is Order.HND:
        per_head = shape.page_size * one
        yield part.source * per_head, part.target * per_head, part.count * per_head
        return
    for token in range(shape.page_size):
        yield (token * share.heads + part.source) * one, (token * target_heads + part.target) * one, part.count * one


def _pairs_by_id(share: Share, target: Target) -> list[tuple[int, int]]:
    if len(target.kv_layer_ids) != len(target.kv_pointers):
        raise Refused(
            f"the decode rank names {len(target.kv_layer_ids)} layers for {len(target.kv_pointers)} KV buffers",
            code="layers_differ",
        )
    # A layer stands there twice when it has K and V: first come, first paired.
    waiting: dict[int, deque[int]] = defaultdict(deque)
    for buffer, layer in enumerate(target.kv_layer_ids):
        waiting[layer].append(buffer)
    pairs = []
    for own, layer in enumerate([*share.layers] * (1 if share.shape.is_mla else 2)):
        if not waiting[layer]:
            raise Refused(f"the decode rank keeps no KV buffer for layer {layer}", code="layers_differ")
        pairs.append((own, waiting[layer].popleft()))
    return pairs
