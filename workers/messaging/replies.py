"""What a prefill rank says to a decode rank: the status of a room, that an abort has drained, and metadata in a message.

Source: `_encode_kv_status_message`, `parse_kv_status_message` and `AbortAck` in sglang/srt/disaggregation/common/conn.py;
`send_aux_data_to_endpoint` in sglang/srt/disaggregation/mooncake/conn.py (0.5.23).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from workers.messaging import packing
from workers.messaging.errors import BadFrames
from workers.messaging.packing import Ints, ascii_number, number, pack_ints
from workers.messaging.requests import MAX_PAGES, MAX_ROOM, Frames, check_shape

ABORT_ACK = b"ABORT_ACK"
AUX_DATA = b"AUX_DATA"
NOT_SPOKEN = {b"CHUNK_READY", b"STAGING_REQ"}
MAX_REASON = 1000
MAX_AUX_BYTES = 2**22
MAX_RANK = 2**31 - 1


class Poll(enum.IntEnum):
    """SGLang's `KVPoll`: how far the transfer of a room is. FAILED is final and stands lowest."""

    FAILED = 0
    BOOTSTRAPPING = 1
    WAITING_FOR_INPUT = 2
    TRANSFERRING = 3
    SUCCESS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How the room ended at one prefill rank.

    SGLang's Mooncake manager sends and reads the first three frames. Ours has three more, which it ignores: why it failed,
    the attempt of the `KvRequest` it answers, and a checksum for each page as this rank sent it.
    """

    room: int
    poll: Poll
    prefill_rank: int
    reason: str = ""
    attempt: str = ""
    checksums: Ints = ()

    def frames(self) -> list[bytes]:
        found = [ascii_number(self.room), ascii_number(self.poll), ascii_number(self.prefill_rank)]
        if self.reason or self.attempt or self.checksums:
            reason = self.reason.encode("utf-8")[:MAX_REASON]
            found += [reason, self.attempt.encode("ascii"), pack_ints(self.checksums, "I")]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortAck:
    """This prefill rank will not write to the pages of the room any more."""

    room: int
    prefill_rank: int
    generation: int | None = None

    def frames(self) -> list[bytes]:
        found = [ABORT_ACK, ascii_number(self.room), ascii_number(self.prefill_rank)]
        return found if self.generation is None else [*found, ascii_number(self.generation)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxData:
    """One row of one metadata buffer, for transports that cannot write it (SGLANG_MOONCAKE_SEND_AUX_TCP)."""

    room: int
    buffer: int
    aux_index: int
    data: bytes

    def frames(self) -> list[bytes]:
        numbers = map(ascii_number, (self.room, self.buffer, self.aux_index))
        return [AUX_DATA, *numbers, struct.pack(">I", len(self.data)), self.data]


def read_reply(frames: Frames) -> Status | AbortAck | AuxData:
    """What arrived at a decode rank; raises BadFrames."""
    check_shape(frames)
    if frames[0] in NOT_SPOKEN:
        raise BadFrames(f"{frames[0].decode()} belongs to staging, which this decode does not offer")
    if frames[0] == ABORT_ACK:
        return _ack(frames)
    if frames[0] == AUX_DATA:
        return _aux(frames)
    return _status(frames)


def _status(frames: Frames) -> Status:
    if len(frames) < 3:
        raise BadFrames(f"a status has at least 3 frames, not {len(frames)}")
    return Status(
        room=number(frames[0], "the room", most=MAX_ROOM),
        poll=Poll(number(frames[1], "the status", most=max(Poll))),
        prefill_rank=number(frames[2], "the prefill rank", most=MAX_RANK),
        reason=frames[3][:MAX_REASON].decode("utf-8", errors="replace") if len(frames) > 3 else "",
        attempt=packing.text(frames[4], "the attempt", longest=64) if len(frames) > 4 else "",
        checksums=packing.optional_ints(frames, 5, "I", "the checksums", most=MAX_PAGES),
    )


def _ack(frames: Frames) -> AbortAck:
    if len(frames) < 3:
        raise BadFrames(f"an ABORT_ACK that can be counted has at least 3 frames, not {len(frames)}")
    return AbortAck(
        room=number(frames[1], "the room", most=MAX_ROOM),
        prefill_rank=number(frames[2], "the prefill rank", most=MAX_RANK),
        generation=number(frames[3], "the generation") if len(frames) > 3 else None,
    )


def _aux(frames: Frames) -> AuxData:
    if len(frames) < 6:
        raise BadFrames(f"AUX_DATA has 6 frames, not {len(frames)}")
    data = bytes(frames[5])
    if len(data) > MAX_AUX_BYTES or frames[4] != struct.pack(">I", len(data)):
        raise BadFrames(f"AUX_DATA announces another length than its {len(data)} bytes")
    return AuxData(
        room=number(frames[1], "the room", most=MAX_ROOM),
        buffer=number(frames[2], "the metadata buffer", most=2**16),
        aux_index=number(frames[3], "the metadata slot", most=2**31 - 1),
        data=data,
    )
