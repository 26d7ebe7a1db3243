"""One request's keys and values in the pages of a rank's pool: what the model writes is what the transfer moves."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from workers.transfer.pool import KvPool


class PagedCache:
    """`pages` hold the tokens in their order. Layers are counted within the rank's stage, as the model does."""

    def __init__(self, pool: KvPool, pages: Sequence[int]) -> None:
        self._pool, self._pages = pool, tuple(pages)
        self._first = pool.share.layers.start

    def write(self, layer: int, start: int, keys: Tensor, values: Tensor) -> None:
        at = self._first + layer
        self._pool.put(self._pool.keys(at), self._pages, keys, first=start)
        self._pool.put(self._pool.values(at), self._pages, values, first=start)

    def read(self, layer: int, length: int) -> tuple[Tensor, Tensor]:
        at, pool = self._first + layer, self._pool
        return pool.tokens(pool.keys(at), self._pages, length), pool.tokens(pool.values(at), self._pages, length)


def pages_for(tokens: int, page_size: int) -> int:
    """
    >>> pages_for(1, 4), pages_for(8, 4), pages_for(9, 4)
    (1, 2, 3)
    """
    return -(-tokens // page_size)
