"""KV pages as real torch tensors, in memory that an engine can move. The only module of this package that imports torch.

Source: `MHATokenToKVPool` and `MLATokenToKVPool` in sglang/srt/mem_cache/memory_pool.py (0.5.23).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.transfer.errors import TransferError
from workers.transfer.layout import KvShape, Order, Place, Share
from workers.transfer.memory import Borrowed, Segment


def shape_of(
    *,
    layers: int,
    heads: int,
    head_dim: int,
    dtype: torch.dtype,
    page_size: int,
    is_mla: bool = False,
    order: Order = Order.NHD,
) -> KvShape:
    """`KvShape` with the bytes of an element of `dtype`."""
    return KvShape(
        layers=layers,
        heads=heads,
        head_dim=head_dim,
        item_size=dtype.itemsize,
        page_size=page_size,
        is_mla=is_mla,
        order=order,
    )


class KvPool:
    """`pages` pages of one rank's share, on the CPU, in one segment: `segment` is what an engine registers.

    `buffers`: K of each layer and then V of each layer (MHA), or one a layer (MLA). A buffer has the shape
    (pages, page_size, heads, head_dim) in order nhd, (pages, heads, page_size, head_dim) in order hnd.
    """

    def __init__(self, shape: KvShape, place: Place, pages: int, dtype: torch.dtype) -> None:
        if dtype.itemsize != shape.item_size:
            raise TransferError(f"{dtype} has {dtype.itemsize} bytes an element, the shape says {shape.item_size}")
        self.share, self.pages, self.dtype = Share(shape, place), pages, dtype
        self.segment = Segment(self.share.pool_bytes(pages))
        per_buffer = pages * self.share.item_len // dtype.itemsize
        whole = torch.frombuffer(self.segment.buffer, dtype=torch.uint8, count=self.share.pool_bytes(pages))
        heads, tokens = self.share.heads, shape.page_size
        inner = (tokens, heads) if shape.order is Order.NHD else (heads, tokens)
        self.buffers = [
            part.view(pages, *inner, shape.head_dim)
            for part in whole.view(dtype).view(self.share.buffers, per_buffer).unbind(0)
        ]

    def keys(self, layer: int) -> torch.Tensor:
        """K (or the latent) of a layer, counted in the whole model."""
        return self.buffers[self._place(layer)]

    def values(self, layer: int) -> torch.Tensor:
        if self.share.shape.is_mla:
            raise TransferError("MLA keeps one latent a layer, no keys and values apart")
        return self.buffers[len(self.share.layers) + self._place(layer)]

    def tokens(self, buffer: torch.Tensor, pages: Sequence[int], count: int) -> torch.Tensor:
        """The first `count` tokens in these pages, in their order: a copy of shape (count, heads, head_dim)."""
        chosen = buffer[list(pages)]
        if self.share.shape.order is Order.HND:
            chosen = chosen.transpose(1, 2)
        return chosen.reshape(-1, self.share.heads, self.share.shape.head_dim)[:count]

    def put(self, buffer: torch.Tensor, pages: Sequence[int], tokens: torch.Tensor, *, first: int = 0) -> None:
        """Store `tokens`, of shape (count, heads, head_dim), from the `first` token of these pages on."""
        size = self.share.shape.page_size
        for place, row in enumerate(tokens, start=first):
            page, at = pages[place // size], place % size
            if self.share.shape.order is Order.HND:
                buffer[page, :, at] = row
            else:
                buffer[page, at] = row

    def close(self) -> None:
        """Free the memory; no tensor of it may be alive outside."""
        self.buffers = []
        self.segment.close()

    def _place(self, layer: int) -> int:
        if layer not in self.share.layers:
            raise TransferError(f"layer {layer} is not of this stage, which keeps {self.share.layers}")
        return layer - self.share.layers.start


def borrowed(tensor: torch.Tensor) -> Borrowed:
    """The memory of a contiguous tensor as a region for an engine in this process, say of a pool on a GPU."""
    if not tensor.is_contiguous() or tensor.numel() == 0:
        raise TransferError("only a contiguous tensor with elements can be registered")
    return Borrowed(tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor)
