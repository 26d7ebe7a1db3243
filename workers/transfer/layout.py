"""How a rank keeps KV: which heads and layers are its own, which buffers that makes, how many bytes a page has.

Source: `MHATokenToKVPool`, `MLATokenToKVPool` and `get_contiguous_buf_infos` in sglang/srt/mem_cache/memory_pool.py (0.5.23):
one buffer a layer for K and one for V (K of all layers first), or one a layer for MLA; a buffer is an array of pages.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from controlplane.domain.errors import Refused


class Order(enum.StrEnum):
    """What a page looks like inside: tokens of heads, or heads of tokens."""

    NHD = "nhd"
    HND = "hnd"


@dataclass(frozen=True, slots=True, kw_only=True)
class KvShape:
    """The KV cache of a whole model, before it is split.

    `item_size`: bytes of one element. `heads`: KV heads in all; MLA has one latent of `head_dim` elements, whole on every rank.
    """

    layers: int
    heads: int
    head_dim: int
    item_size: int
    page_size: int
    is_mla: bool = False
    order: Order = Order.NHD

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "head_dim", "item_size", "page_size"):
            if getattr(self, name) < 1:
                raise Refused(f"{name} must be at least 1, not {getattr(self, name)}", code="bad_size")
        if self.is_mla and self.heads != 1:
            raise Refused(f"MLA keeps one latent, not {self.heads} heads", code="bad_size")

    @property
    def head_bytes(self) -> int:
        """One head of one token in one buffer."""
        return self.head_dim * self.item_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A rank's place in its engine: attention TP, CP and PP."""

    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    cp_rank: int = 0
    cp_size: int = 1

    def __post_init__(self) -> None:
        for kind in ("tp", "pp", "cp"):
            rank, size = getattr(self, f"{kind}_rank"), getattr(self, f"{kind}_size")
            if not 0 <= rank < size:
                raise Refused(f"{kind}_rank {rank} does not exist in {kind}_size {size}", code="bad_rank")

    @property
    def unique_rank(self) -> int:
        """The number by which a prefill rank signs its status (`CommonKVManager._prefill_unique_rank`)."""
        return (self.tp_rank * self.pp_size + self.pp_rank) * self.cp_size + self.cp_rank


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank keeps of a model's KV."""

    shape: KvShape
    place: Place

    def __post_init__(self) -> None:
        shape, place = self.shape, self.place
        if place.pp_size > shape.layers:
            raise Refused(f"{shape.layers} layers cannot be split over PP {place.pp_size}", code="bad_size")
        larger, smaller = max(shape.heads, place.tp_size), min(shape.heads, place.tp_size)
        if not shape.is_mla and larger % smaller:
            raise Refused(
                f"{shape.heads} KV heads cannot be split over TP {place.tp_size}: neither divides the other",
                code="bad_size",
            )

    @property
    def heads(self) -> int:
        """Heads on this rank; with fewer heads than ranks each head lies on several of them.

        >>> shape = KvShape(layers=2, heads=2, head_dim=8, item_size=2, page_size=4)
        >>> [Share(shape, Place(tp_size=size)).heads for size in (1, 2, 8)]
        [2, 1, 1]
        """
        return max(1, self.shape.heads // self.place.tp_size)

    @property
    def first_head(self) -> int:
        """The first of them, counted in the whole model.

        >>> shape = KvShape(layers=2, heads=2, head_dim=8, item_size=2, page_size=4)
        >>> [Share(shape, Place(tp_rank=rank, tp_size=4)).first_head for rank in range(4)]
        [0, 0, 1, 1]
        """
        if self.shape.is_mla:
            return 0
        return self.place.tp_rank * self.shape.heads // self.place.tp_size

    @property
    def layers(self) -> range:
        """The layers of this rank's pipeline stage: even parts, and the last stages take one more of what is left over
        (`get_pp_indices` in sglang/srt/distributed/utils.py).

        >>> shape = KvShape(layers=5, heads=1, head_dim=8, item_size=2, page_size=4)
        >>> [Share(shape, Place(pp_rank=rank, pp_size=2)).layers for rank in range(2)]
        [range(0, 2), range(2, 5)]
        """
        each, rest = divmod(self.shape.layers, self.place.pp_size)
        rank, without = self.place.pp_rank, self.place.pp_size - rest
        first = rank * each + max(0, rank - without)
        return range(first, first + each + (rank >= without))

    @property
    def item_len(self) -> int:
        """Bytes of one page in one buffer: SGLang's `kv_item_len`."""
        return self.shape.page_size * self.heads * self.shape.head_bytes

    @property
    def buffers(self) -> int:
        """K of each layer and then V of each layer, or one a layer for MLA."""
        return len(self.layers) * (1 if self.shape.is_mla else 2)

    def pool_bytes(self, pages: int) -> int:
        return self.buffers * pages * self.item_len

    def pointers(self, base: int, pages: int) -> tuple[int, ...]:
        """Where each buffer begins in a pool that keeps them one after the other from `base` on."""
        return tuple(base + buffer * pages * self.item_len for buffer in range(self.buffers))
