"""The metadata that travels beside KV: the first output token and what belongs to it, and the room, which is written last.

Source: `MetadataBuffers` in sglang/srt/disaggregation/utils.py (0.5.23): the same buffers in the same order, one row a slot,
rows of at least 64 bytes (the least that RDMA moves well), so a rank of SGLang can be the other side. There all buffers travel
in one batch, which has no order; here the room is a write of its own after everything else, so a room that is there proves
that the rest is.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.domain.errors import Refused
from workers.transfer.blocks import Block
from workers.transfer.errors import BadBlocks
from workers.transfer.memory import Segment

Number = int | float
ROOM = "bootstrap_room"
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Field:
    """One buffer: `count` numbers of a `struct` format character a slot."""

    name: str
    format: str
    count: int

    @property
    def item_len(self) -> int:
        return struct.calcsize(f"<{self.format}") * self.count


def sglang_fields(*, hidden_bytes: int = ALIGNMENT, top_logprobs: int = 128) -> tuple[Field, ...]:
    """SGLang's buffers without its optional ones; `hidden_bytes`: hidden size × element size of the model.

    >>> [field.name for field in sglang_fields()][-1], sum(field.item_len for field in sglang_fields())
    ('bootstrap_room', 1600)
    """
    return (
        Field("output_ids", "i", 16),
        Field("cached_tokens", "i", 16),
        Field("output_token_logprobs_val", "f", 16),
        Field("output_token_logprobs_idx", "i", 16),
        Field("output_top_logprobs_val", "f", top_logprobs),
        Field("output_top_logprobs_idx", "i", top_logprobs),
        Field("output_topk_p", "f", 16),
        Field("output_topk_index", "q", 16),
        Field("output_hidden_states", "B", hidden_bytes),
        Field(ROOM, "Q", 8),
    )


class RoomCheck(enum.Enum):
    """What the room in a slot says about the metadata there."""

    NOT_WRITTEN = "not written yet"
    SAME = "the metadata is of this room"
    OTHER = "the metadata is of another room"


def check_room(found: int, room: int) -> RoomCheck:
    """0 is "not written yet": room 0 can be told from another room, but never proven.

    >>> check_room(0, 7), check_room(7, 7), check_room(8, 7)
    (<RoomCheck.NOT_WRITTEN: 'not written yet'>, <RoomCheck.SAME: ...>, <RoomCheck.OTHER: ...>)
    """
    if found == 0:
        return RoomCheck.NOT_WRITTEN
    return RoomCheck.SAME if found == room else RoomCheck.OTHER


class MetadataSlots:
    """`slots` rows of every field in one segment, each buffer aligned to 64 bytes."""

    def __init__(self, slots: int, fields: Sequence[Field] = sglang_fields()) -> None:
        if ROOM not in (names := [field.name for field in fields]) or len(set(names)) != len(names):
            raise Refused(f"metadata needs fields of different names, {ROOM} among them", code="bad_fields")
        self.slots, self.fields = slots, tuple(fields)
        self._offsets: list[int] = []
        end = 0
        for field in self.fields:
            self._offsets.append(end)
            end += -(-field.item_len * slots // ALIGNMENT) * ALIGNMENT
        self.segment = Segment(end)
        self._at = {field.name: place for place, field in enumerate(self.fields)}

    @property
    def item_lens(self) -> tuple[int, ...]:
        return tuple(field.item_len for field in self.fields)

    def pointers(self, base: int) -> tuple[int, ...]:
        """Where each buffer begins, for a peer that knows the segment at `base`."""
        return tuple(base + offset for offset in self._offsets)

    def write(self, slot: int, values: Mapping[str, Sequence[Number]]) -> None:
        """The leading numbers of each field; the rest of its row becomes 0. The room is set by `set_room` alone."""
        for name, numbers in values.items():
            if name == ROOM or name not in self._at:
                raise Refused(f"{name} is no metadata that can be written", code="bad_fields")
            self._put(slot, name, numbers)

    def read(self, slot: int) -> dict[str, tuple[Number, ...]]:
        return {field.name: self._get(slot, field.name) for field in self.fields}

    def room(self, slot: int) -> int:
        return int(self._get(slot, ROOM)[0])

    def set_room(self, slot: int, room: int) -> None:
        self._put(slot, ROOM, [room])

    def clear(self, slot: int) -> None:
        """Before a slot is given to a request: the room reads "not written yet"."""
        self._put(slot, ROOM, [])

    def put_row(self, buffer: int, slot: int, data: bytes) -> None:
        """A row that came in a message (AUX_DATA); raises BadBlocks unless it is exactly one."""
        if not 0 <= buffer < len(self.fields) or len(data) != self.fields[buffer].item_len:
            raise BadBlocks(f"{len(data)} bytes are not a row of metadata buffer {buffer}")
        self._row(slot, buffer)[:] = data

    def blocks(self, slot: int, targets: Sequence[int], target_slot: int) -> tuple[list[Block], list[Block]]:
        """(everything but the room, the room): two writes, in this order.

        `targets`: the peer's pointers; buffers pair by place, and what only one side has is left out
        (`CommonKVManager.check_peer_aux_buffer_count`). Raises BadBlocks for a peer that has no place for the room.
        """
        self._row(slot, 0)
        rest: list[Block] = []
        room: list[Block] = []
        for place, (field, target) in enumerate(zip(self.fields, targets, strict=False)):
            own = self.segment.address + self._offsets[place] + slot * field.item_len
            block = (own, target + target_slot * field.item_len, field.item_len)
            (room if field.name == ROOM else rest).append(block)
        if not room:
            raise BadBlocks(f"the peer registered {len(targets)} metadata buffers and none for the room")
        return rest, room

    def close(self) -> None:
        self.segment.close()

    def _row(self, slot: int, place: int) -> memoryview:
        if not 0 <= slot < self.slots:
            raise BadBlocks(f"metadata slot {slot} is outside 0 to {self.slots - 1}")
        length = self.fields[place].item_len
        return self.segment.view(self._offsets[place] + slot * length, length)

    def _put(self, slot: int, name: str, numbers: Sequence[Number]) -> None:
        field = self.fields[self._at[name]]
        if len(numbers) > field.count:
            raise Refused(f"{name} has place for {field.count} numbers, not {len(numbers)}", code="bad_fields")
        with self._row(slot, self._at[name]) as row:
            row[:] = struct.pack(f"<{field.count}{field.format}", *numbers, *[0] * (field.count - len(numbers)))

    def _get(self, slot: int, name: str) -> tuple[Number, ...]:
        field = self.fields[self._at[name]]
        with self._row(slot, self._at[name]) as row:
            return struct.unpack(f"<{field.count}{field.format}", row)
