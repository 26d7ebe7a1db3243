"""KV pages from prefill to decode ranks: moved by an engine, proven by the room, in quarantine while in doubt.

Two levels. An **engine** (`open_engine("mooncake" | "zmq" | "fake", host)`, the protocol in `engine.py`) writes and
reads blocks of registered memory of a peer, each call within 10 s. Above it, a prefill rank is a `PrefillSide` and a
decode rank a `DecodeSide`: they speak the frames of SGLang's Mooncake manager (`workers.messaging`), so the other
side may be SGLang's.

    shape = shape_of(layers=4, heads=8, head_dim=64, dtype=torch.bfloat16, page_size=16)         # workers.transfer.pool (torch)
    pool = KvPool(shape, Place(tp_rank=1, tp_size=2), pages=256, dtype=torch.bfloat16)
    engine = open_engine("mooncake", "10.0.0.7")
    metadata = MetadataSlots(64)
    parts = dict(host="10.0.0.7", engine=engine, share=pool.share, kv=pool.segment, pages=pool.pages, metadata=metadata)

Prefill; `side.endpoint` is what it registers as `rank_ip` and `rank_port`:

    side = PrefillSide(**parts, checksums=True)
    sender = side.open(room, timeout=60)
    if sender.wait_until_asked(60) is not Poll.FAILED:
        pages = side.pages.take(count); pool.put(pool.keys(0), pages, k); ...       # compute, chunk by chunk if you like
        sender.send(pages[:4]); sender.finish(pages[4:], metadata={"output_ids": [token]})
    sender.wait(30); sender.close()                                                # pages are free again, or in quarantine

Decode; `sources_of(map_ranks(...), sizes, address)` says whom to ask:

    side = DecodeSide(**parts)
    pages = side.pages.take(count)
    receiver = side.open(room, sources, pages, required_dst_info_num=mapping.required_dst_info_num,
                         answers_needed=mapping.required_prefill_response_num, timeout=60)
    if receiver.wait(60) is Poll.SUCCESS:                                          # proven: all answered, the room agrees
        token = receiver.metadata()["output_ids"][0]; use pool.keys(0)[list(pages)]; ...
    outcome = receiver.close()                                                     # why it failed: outcome.failure, .reason

Rules that hold whatever the peer does. Every call ends within its bound. The room is written last, in a call of its
own; a receiver that finds another room, or a page with another checksum, fails and hands out nothing. A room names
one request: a second use while the first is open is refused (`RoomTaken`), late word of an earlier attempt is
ignored. A prefill rank whose process ended under a room (it hung up, and its port refuses twice) fails the room within
some 2 s, as `Failure.LOST`; one that is silent has the room's time. Pages and slots of a room that ended in doubt
are not used again until every prefill rank that was told of them has acknowledged the abort (a dummy's word is none),
or `side.reset()` has started the engine anew (with "mooncake" by ending its process): call it when `side.pages.held`
keeps you from serving. An engine whose process was lost is started anew by the next use. For the evidence of a room:
`open` that did not fail is connected, SUCCESS is verified, consumed is yours to say. Close receivers and senders, then
the side, then the engine, then the pool.

Neither backend authenticates anybody, and Mooncake's sockets take writes from whoever reaches them, like SGLang's
own: run ranks in a network of their own.
"""

from workers.messaging.replies import Poll
from workers.transfer.decode import DecodeSide
from workers.transfer.engine import BACKENDS, TransferEngine, open_engine
from workers.transfer.errors import (
    BadBlocks,
    EngineLost,
    NothingFree,
    NotInstalled,
    PeerSilent,
    RoomTaken,
    TransferError,
    TransferFailed,
)
from workers.transfer.layout import KvShape, Order, Place, Share
from workers.transfer.memory import Borrowed, Region, Segment
from workers.transfer.metadata import MetadataSlots
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Outcome, Receiver, Source
from workers.transfer.receiving import Failure
from workers.transfer.sender import Sender
from workers.transfer.sources import sources_of

__all__ = [
    "BACKENDS",
    "BadBlocks",
    "Borrowed",
    "DecodeSide",
    "EngineLost",
    "Failure",
    "KvShape",
    "MetadataSlots",
    "NotInstalled",
    "NothingFree",
    "Order",
    "Outcome",
    "PeerSilent",
    "Place",
    "Poll",
    "PrefillSide",
    "Receiver",
    "Region",
    "RoomTaken",
    "Segment",
    "Sender",
    "Share",
    "Source",
    "TransferEngine",
    "TransferError",
    "TransferFailed",
    "open_engine",
    "sources_of",
]
