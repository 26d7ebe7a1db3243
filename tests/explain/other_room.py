"""A real transfer whose prefill writes another room than it was asked for."""

from __future__ import annotations

import torch

from tests.workers.transfer.ranks import put_share, rank, whole_kv
from workers.transfer.decode import DecodeSide
from workers.transfer.layout import Place
from workers.transfer.pool import shape_of
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Source

DTYPE, TOKENS, PAGES = torch.float16, 8, 2


def transferred_with_another_room(room: int) -> tuple[str, str]:
    """What the decode makes of it, in a word, and why."""
    shape = shape_of(layers=2, heads=2, head_dim=8, dtype=DTYPE, page_size=4)
    prefill, decode = (rank(side, shape, Place(), DTYPE, "zmq") for side in (PrefillSide, DecodeSide))
    try:
        set_room = prefill.metadata.set_room
        prefill.metadata.set_room = lambda slot, written: set_room(slot, written + 1)  # type: ignore[method-assign]
        source = Source(prefill.side.endpoint, Place())
        receiver = decode.side.open(room, [source], decode.side.pages.take(PAGES), timeout=30)
        sender = prefill.side.open(room, timeout=30)
        sender.wait_until_asked(30)
        pages = prefill.side.pages.take(PAGES)
        put_share(prefill, whole_kv(shape, DTYPE, TOKENS, seed=1), pages, 0, TOKENS)
        sender.finish(pages, metadata={"output_ids": [1]})
        sender.wait(30)
        receiver.wait(30)
        outcome = receiver.close()
        sender.close()
        return str(outcome.failure), outcome.reason
    finally:
        prefill.close()
        decode.close()
