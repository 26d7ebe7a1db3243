"""A checksum for each page, taken by the sender over what it sends and by the receiver over what arrived.

CRC-32 (zlib) over the ranges of a page in the order of `slicing`: it finds bytes that were damaged, mixed up or never written. It
is no protection against a peer that lies.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from workers.transfer.layout import Share
from workers.transfer.memory import view_at
from workers.transfer.slicing import Target, entry_pairs, page_ranges

Ranges = list[tuple[int, int]]


def sent_ranges(share: Share, pointers: Sequence[int], target: Target, page: int) -> Ranges:
    """(address, bytes) of a page in the sender's memory, as far as it goes to `target`."""
    return [
        (pointers[own] + page * share.item_len + source, length)
        for own, theirs in entry_pairs(share, target)
        for source, _, length in page_ranges(share, target, target.item_len(theirs))
    ]


def received_ranges(share: Share, target: Target, page: int) -> Ranges:
    """The same bytes in the receiver's memory. `share` is the sender's; `target.kv_pointers` are addresses of this process."""
    return [
        (target.kv_pointers[theirs] + page * target.item_len(theirs) + at, length)
        for _, theirs in entry_pairs(share, target)
        for _, at, length in page_ranges(share, target, target.item_len(theirs))
    ]


def checksum(ranges: Ranges) -> int:
    """One number of 32 bits; the ranges must be mapped in this process."""
    found = 0
    for address, length in ranges:
        found = zlib.crc32(view_at(address, length), found)
    return found
