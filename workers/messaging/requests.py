"""What a decode rank says to a prefill rank: its registration, a request for a room, and that it gives a room up.

Source: `KVArgsRegisterInfo`, `TransferInfo`, `build_receiver_registration_message` and `build_receiver_metadata_message` in
sglang/srt/disaggregation/mooncake/conn.py; `AbortNotification` in sglang/srt/disaggregation/common/conn.py (0.5.23).
Frames are positional; both sides may send fewer or more than the other knows, so missing ones have defaults and further
ones are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.errors import Refused
from workers.messaging import packing
from workers.messaging.endpoint import MAX_PORT, Endpoint
from workers.messaging.errors import BadFrames
from workers.messaging.packing import IntLists, Ints, ascii_number, number, pack_int_lists, pack_ints

MAX_ROOM = 2**63 - 1
MAX_FRAMES = 32
MAX_PAGES = 2**20
MAX_POINTERS = 2**14
MAX_STATE_INTS = 2**18

ABORT = b"ABORT"
REGISTRATION_ROOM = b"None"
# SGLang's other messages to a prefill. They belong to features that are refused when ranks register.
NOT_SPOKEN = {b"WATERMARK": "staging", b"STAGING_RSP": "staging", b"BOOTSTRAP": "the policy prefill_complete"}

Frames = Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Once per decode rank and prefill rank: where the decode takes status, and where its KV and metadata lie.

    `kv_pointers`: one address per buffer, K of all layers and then V of all layers (MHA), or one buffer a layer (MLA).
    `kv_item_len`: bytes of one page in one buffer of this decode rank; `kv_item_lens` of each buffer, when sent.
    `aux_pointers`: one address per metadata buffer, in the order of `workers.transfer.metadata`.
    """

    endpoint: Endpoint
    session: str
    kv_pointers: Ints
    aux_pointers: Ints
    tp_rank: int
    tp_size: int
    kv_item_len: int
    kv_item_lens: Ints = ()
    kv_layer_ids: Ints = ()
    state_pointers: IntLists = ()
    state_item_lens: IntLists = ()
    state_dims: IntLists = ()
    state_layer_ids: IntLists = ()
    staging_pointer: int = 0
    staging_bytes: int = 0
    staging_layer_ids: Ints = ()
    dcp_size: int = 1
    dcp_rank: int = 0

    def frames(self) -> list[bytes]:
        staged = self.staging_bytes > 0
        return [
            REGISTRATION_ROOM,
            *_where(self.endpoint),
            self.session.encode("ascii"),
            pack_ints(self.kv_pointers, "Q"),
            pack_ints(self.aux_pointers, "Q"),
            pack_int_lists(self.state_pointers, "Q"),
            ascii_number(self.tp_rank),
            ascii_number(self.tp_size),
            ascii_number(self.kv_item_len),
            pack_int_lists(self.state_item_lens, "I"),
            pack_int_lists(self.state_dims, "I"),
            pack_ints(self.kv_layer_ids, "I"),
            pack_int_lists(self.state_layer_ids, "I"),
            pack_ints([self.staging_pointer], "Q") if staged else b"",
            ascii_number(self.staging_bytes) if staged else b"",
            ascii_number(self.dcp_size),
            ascii_number(self.dcp_rank),
            pack_ints(self.staging_layer_ids, "Q"),
            pack_ints(self.kv_item_lens, "Q"),
        ]

    def item_len(self, buffer: int) -> int:
        """Bytes of a page in one buffer; a peer that sends no list has one length for all."""
        return self.kv_item_lens[buffer] if self.kv_item_lens else self.kv_item_len


@dataclass(frozen=True, slots=True, kw_only=True)
class KvRequest:
    """Once per room and prefill rank: the pages and the metadata slot that this decode rank keeps for the room.

    A prefill sends when `required_dst_info_num` decode ranks asked. A dummy asks for nothing: the prefill only learns that
    this rank needs no bytes from it. `attempt` is an addition of ours in a frame that SGLang does not read: a prefill of
    ours repeats it in its status, so that word of an earlier use of the room is not taken for this one.
    """

    room: int
    endpoint: Endpoint
    session: str
    required_dst_info_num: int
    pages: Ints = ()
    aux_index: int = 0
    state_indices: IntLists = ()
    is_dummy: bool = False
    decode_prefix_len: int = 0
    device_pages: Ints = ()
    attempt: str = ""

    def frames(self) -> list[bytes]:
        told = not self.is_dummy
        return [
            ascii_number(self.room),
            *_where(self.endpoint),
            self.session.encode("ascii"),
            pack_ints(self.pages, "i") if told else b"",
            ascii_number(self.aux_index) if told else b"",
            pack_int_lists(self.state_indices, "i") if told else b"",
            ascii_number(self.required_dst_info_num),
            ascii_number(self.decode_prefix_len),
            pack_ints(self.device_pages, "i") if told else b"",
            self.attempt.encode("ascii"),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """The decode gives the room up. With an endpoint and a generation it waits for an `AbortAck`: until then the prefill
    may still write, and the pages are not reused. `attempt` is that of the `KvRequest`, an addition of ours as there."""

    room: int
    endpoint: Endpoint | None = None
    generation: int | None = None
    attempt: str = ""

    def frames(self) -> list[bytes]:
        found = [ABORT, ascii_number(self.room)]
        if self.endpoint is not None:
            found += _where(self.endpoint)
            if self.generation is not None:
                found.append(ascii_number(self.generation))
                if self.attempt:
                    found.append(self.attempt.encode("ascii"))
        return found


def read_request(frames: Frames) -> Registration | KvRequest | Abort:
    """What arrived at a prefill rank; raises BadFrames."""
    check_shape(frames)
    if frames[0] in NOT_SPOKEN:
        raise BadFrames(f"{frames[0].decode()} belongs to {NOT_SPOKEN[frames[0]]}, which this prefill does not offer")
    if frames[0] == ABORT:
        return _abort(frames)
    if frames[0] == REGISTRATION_ROOM:
        return _registration(frames)
    return _request(frames)


def check_shape(frames: Frames) -> None:
    if not 2 <= len(frames) <= MAX_FRAMES:
        raise BadFrames(f"a message has 2 to {MAX_FRAMES} frames, not {len(frames)}")


def _registration(frames: Frames) -> Registration:
    if len(frames) < 10:
        raise BadFrames(f"a registration has at least 10 frames, not {len(frames)}")
    most = MAX_POINTERS
    staging = packing.optional_ints(frames, 14, "Q", "the staging pointer", most=1)
    return Registration(
        endpoint=_endpoint(frames),
        session=_session(frames),
        kv_pointers=packing.ints(frames[4], "Q", "the KV pointers", most=most),
        aux_pointers=packing.ints(frames[5], "Q", "the metadata pointers", most=most),
        state_pointers=packing.int_lists(frames[6], "Q", "the state pointers", most=most),
        tp_rank=number(frames[7], "the TP rank", most=2**20),
        tp_size=number(frames[8], "the TP size", least=1, most=2**20),
        kv_item_len=number(frames[9], "the bytes of a page"),
        state_item_lens=packing.optional_lists(frames, 10, "I", "the state lengths", most=most),
        state_dims=packing.optional_lists(frames, 11, "I", "the state dimensions", most=most),
        kv_layer_ids=packing.optional_ints(frames, 12, "I", "the layer ids", most=most),
        state_layer_ids=packing.optional_lists(frames, 13, "I", "the state layer ids", most=most),
        staging_pointer=staging[0] if staging else 0,
        staging_bytes=packing.optional_number(frames, 15, "the staging bytes", missing=0),
        dcp_size=packing.optional_number(frames, 16, "the DCP size", missing=1),
        dcp_rank=packing.optional_number(frames, 17, "the DCP rank", missing=0),
        staging_layer_ids=packing.optional_ints(frames, 18, "Q", "the staging layer ids", most=most),
        kv_item_lens=packing.optional_ints(frames, 19, "Q", "the bytes of pages", most=most),
    )


def _request(frames: Frames) -> KvRequest:
    if len(frames) < 8:
        raise BadFrames(f"a request has at least 8 frames, not {len(frames)}")
    is_dummy = frames[4] == b"" and frames[5] == b""
    pages = packing.ints(frames[4], "i", "the pages", most=MAX_PAGES)
    device = packing.optional_ints(frames, 9, "i", "the device pages", most=MAX_PAGES)
    if min(pages + device, default=0) < 0:
        raise BadFrames("a page has a negative number")
    return KvRequest(
        room=number(frames[0], "the room", most=MAX_ROOM),
        endpoint=_endpoint(frames),
        session=_session(frames),
        pages=pages,
        aux_index=0 if is_dummy else number(frames[5], "the metadata slot", most=2**31 - 1),
        state_indices=() if is_dummy else packing.int_lists(frames[6], "i", "the state pages", most=MAX_STATE_INTS),
        required_dst_info_num=number(frames[7], "required_dst_info_num", least=1, most=2**16),
        is_dummy=is_dummy,
        decode_prefix_len=packing.optional_number(frames, 8, "the prefix length", missing=0),
        device_pages=device,
        attempt=packing.text(frames[10], "the attempt", longest=64) if len(frames) > 10 else "",
    )


def _abort(frames: Frames) -> Abort:
    room = number(frames[1], "the room", most=MAX_ROOM)
    if len(frames) < 4:
        return Abort(room=room)
    generation = number(frames[4], "the generation") if len(frames) > 4 else None
    attempt = packing.text(frames[5], "the attempt", longest=64) if len(frames) > 5 else ""
    return Abort(room=room, endpoint=_at(frames[2], frames[3]), generation=generation, attempt=attempt)


def _where(endpoint: Endpoint) -> list[bytes]:
    return [endpoint.host.encode("ascii"), ascii_number(endpoint.port)]


def _endpoint(frames: Frames) -> Endpoint:
    return _at(frames[1], frames[2])


def _at(host: bytes, port: bytes) -> Endpoint:
    try:
        return Endpoint.at(packing.text(host, "the host"), number(port, "the port", least=1, most=MAX_PORT))
    except Refused as why:
        raise BadFrames(f"the return address: {why.sentence}") from None


def _session(frames: Frames) -> str:
    found = packing.text(frames[3], "the session")
    # SGLang spreads its work by the number behind the last colon, and fails on a session without one.
    if not found.rpartition(":")[2].isdigit():
        raise BadFrames("the session is not host:port")
    return found
