"""Lists of blocks: (local address, remote address, bytes). Neighbours are joined, batches and pieces are bounded.

Source: `group_concurrent_contiguous` in sglang/srt/disaggregation/common/utils.py (0.5.23).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

Block = tuple[int, int, int]

MAX_BATCH = 1024
"""Mooncake's TCP transport keeps at most this many transfers in line for one peer."""


def joined(blocks: Iterable[Block]) -> list[Block]:
    """Blocks that follow one another on both sides become one; the order stays, empty ones go.

    >>> joined([(0, 100, 8), (8, 108, 8), (32, 116, 8), (40, 999, 0)])
    [(0, 100, 16), (32, 116, 8)]
    """
    found: list[Block] = []
    for local, remote, length in blocks:
        if length <= 0:
            continue
        if found:
            last_local, last_remote, last_length = found[-1]
            if last_local + last_length == local and last_remote + last_length == remote:
                found[-1] = (last_local, last_remote, last_length + length)
                continue
        found.append((local, remote, length))
    return found


def batches(blocks: Sequence[Block], *, most: int = MAX_BATCH) -> Iterator[Sequence[Block]]:
    """
    >>> [len(batch) for batch in batches([(0, 0, 1)] * 2500)]
    [1024, 1024, 452]
    """
    for at in range(0, len(blocks), most):
        yield blocks[at : at + most]


def pieces(blocks: Iterable[Block], *, most_bytes: int, most: int = MAX_BATCH) -> Iterator[list[Block]]:
    """Batches of at most `most` blocks and `most_bytes` bytes; a longer block is cut.

    >>> list(pieces([(0, 50, 10), (20, 70, 3)], most_bytes=8))
    [[(0, 50, 8)], [(8, 58, 2), (20, 70, 3)]]
    """
    batch: list[Block] = []
    room = most_bytes
    for local, remote, length in blocks:
        at = 0
        while at < length:
            step = min(length - at, room)
            batch.append((local + at, remote + at, step))
            at, room = at + step, room - step
            if not room or len(batch) == most:
                yield batch
                batch, room = [], most_bytes
    if batch:
        yield batch


def total(blocks: Iterable[Block]) -> int:
    return sum(length for _, _, length in blocks)
