"""Frames of the portable backend: a fixed header, addresses and lengths, and bytes; everything is checked before it is touched.

Request: `header | count × (address, length) | bytes of a write`. Answer: `header | a sentence, or bytes of a read`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from workers.transfer.blocks import MAX_BATCH
from workers.transfer.errors import BadBlocks

MAGIC = b"PDKV"
VERSION = 1
HEADER = struct.Struct("<4sBBHQ")
MAX_BYTES = 2**22
"""Of one message: 4 MiB, so that a message in line never holds up much."""

Range = tuple[int, int]


class Verb(enum.IntEnum):
    WRITE = 1
    READ = 2
    PROBE = 3


class Result(enum.IntEnum):
    DONE = 0
    REFUSED = 1


@dataclass(frozen=True, slots=True)
class Request:
    verb: Verb
    number: int
    ranges: tuple[Range, ...] = ()
    data: bytes | memoryview = b""

    def frames(self) -> list[bytes | memoryview]:
        flat = [part for each in self.ranges for part in each]
        return [
            HEADER.pack(MAGIC, VERSION, self.verb, len(self.ranges), self.number),
            struct.pack(f"<{len(flat)}Q", *flat),
            self.data,
        ]


@dataclass(frozen=True, slots=True)
class Answer:
    result: Result
    number: int
    data: bytes | memoryview = b""

    def frames(self) -> list[bytes | memoryview]:
        return [HEADER.pack(MAGIC, VERSION, self.result, 0, self.number), self.data]


def read_request(frames: Sequence[memoryview | bytes]) -> Request:
    """Raises BadBlocks."""
    if len(frames) != 3:
        raise BadBlocks(f"a request has 3 frames, not {len(frames)}")
    kind, count, number = _header(frames[0])
    if kind not in list(Verb):
        raise BadBlocks(f"there is no verb {kind}")
    if count > MAX_BATCH or len(frames[1]) != 16 * count:
        raise BadBlocks(f"{count} blocks are announced in {len(frames[1])} bytes; at most {MAX_BATCH} are taken")
    flat = struct.unpack(f"<{2 * count}Q", frames[1])
    ranges = tuple(zip(flat[::2], flat[1::2], strict=True))
    size = sum(length for _, length in ranges)
    if size > MAX_BYTES or (kind == Verb.WRITE and size != len(frames[2])):
        raise BadBlocks(f"{size} bytes are announced, {len(frames[2])} are there, {MAX_BYTES} may be")
    return Request(Verb(kind), number, ranges, frames[2])


def read_answer(frames: Sequence[memoryview | bytes]) -> Answer:
    """Raises BadBlocks."""
    if len(frames) != 2:
        raise BadBlocks(f"an answer has 2 frames, not {len(frames)}")
    kind, _, number = _header(frames[0])
    if kind not in list(Result):
        raise BadBlocks(f"there is no result {kind}")
    return Answer(Result(kind), number, frames[1])


def _header(frame: memoryview | bytes) -> tuple[int, int, int]:
    if len(frame) != HEADER.size:
        raise BadBlocks(f"a header has {HEADER.size} bytes, not {len(frame)}")
    magic, version, kind, count, number = HEADER.unpack(frame)
    if magic != MAGIC or version != VERSION:
        raise BadBlocks("the message is not of this backend, or of another version")
    return kind, count, number
