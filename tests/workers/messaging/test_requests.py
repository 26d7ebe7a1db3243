"""What a decode rank says to a prefill rank, there and back, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from workers.messaging.endpoint import Endpoint
from workers.messaging.errors import BadFrames
from workers.messaging.replies import AbortAck, AuxData, Poll, Status, read_reply
from workers.messaging.requests import MAX_ROOM, Abort, KvRequest, Registration, read_request

HERE = Endpoint("10.0.0.1", 40001)
SESSION = "10.0.0.1:17000"

rooms = some.integers(0, MAX_ROOM)
pointers = some.lists(some.integers(0, 2**64 - 1), max_size=8).map(tuple)
words = some.lists(some.integers(0, 2**32 - 1), max_size=8).map(tuple)
pages = some.lists(some.integers(0, 2**31 - 1), max_size=20).map(tuple)
endpoints = some.sampled_from([HERE, Endpoint("fd00::1", 1), Endpoint("node-7.rack", 65535)])

registrations = some.builds(
    Registration,
    endpoint=endpoints,
    session=some.sampled_from([SESSION, "[fd00::1]:17000"]),
    kv_pointers=pointers,
    aux_pointers=pointers,
    tp_rank=some.integers(0, 63),
    tp_size=some.integers(1, 64),
    kv_item_len=some.integers(0, 2**40),
    kv_item_lens=pointers,
    kv_layer_ids=words,
    state_pointers=some.lists(pointers, max_size=3).map(tuple),
    state_item_lens=some.lists(words, max_size=3).map(tuple),
    state_layer_ids=some.lists(words, max_size=3).map(tuple),
    dcp_size=some.integers(1, 8),
)
requests = some.builds(
    KvRequest,
    room=rooms,
    endpoint=endpoints,
    session=some.just(SESSION),
    required_dst_info_num=some.integers(1, 64),
    pages=pages,
    aux_index=some.integers(0, 2**31 - 1),
    state_indices=some.lists(pages, max_size=3).map(tuple),
    decode_prefix_len=some.integers(0, 10**6),
    attempt=some.sampled_from(["", "00ff"]),
)
dummies = some.builds(
    KvRequest,
    room=rooms,
    endpoint=endpoints,
    session=some.just(SESSION),
    required_dst_info_num=some.integers(1, 64),
    is_dummy=some.just(True),
)
aborts = some.builds(Abort, room=rooms, endpoint=endpoints, generation=some.none()) | some.builds(
    Abort,
    room=rooms,
    endpoint=endpoints,
    generation=some.integers(1, 10**9),
    attempt=some.sampled_from(["", "00ff"]),
)


@settings(deadline=None)
@given(registrations | requests | dummies | aborts)
def test_what_a_decode_rank_says_is_what_the_prefill_rank_reads(message):
    assert read_request(message.frames()) == message


@settings(deadline=None)
@given(
    some.builds(
        Status,
        room=rooms,
        poll=some.sampled_from(Poll),
        prefill_rank=some.integers(0, 1000),
        reason=some.text(max_size=50),
        attempt=some.sampled_from(["", "00ff"]),
        checksums=words,
    )
    | some.builds(AbortAck, room=rooms, prefill_rank=some.integers(0, 99), generation=some.none() | some.integers(1, 9))
    | some.builds(
        AuxData, room=rooms, buffer=some.integers(0, 20), aux_index=some.integers(0, 99), data=some.binary(max_size=99)
    )
)
def test_what_a_prefill_rank_says_is_what_the_decode_rank_reads(message):
    assert read_reply(message.frames()) == message


@settings(deadline=None)
@given(some.lists(some.binary(max_size=40), max_size=40), some.sampled_from([read_request, read_reply]))
def test_any_bytes_at_all_are_read_or_refused_with_a_sentence(frames, read):
    try:
        read(frames)
    except BadFrames as why:
        assert str(why)


@settings(deadline=None)
@given(registrations | requests, some.data())
def test_a_frame_that_was_cut_or_changed_never_does_anything_else_than_be_read_or_refused(message, data):
    frames = message.frames()
    at = data.draw(some.integers(0, len(frames) - 1))
    frames[at] = data.draw(some.just(frames[at][:-1]) | some.binary(max_size=20))
    try:
        read_request(frames)
    except BadFrames as why:
        assert str(why)


def test_a_status_without_additions_is_the_three_frames_of_sglang():
    assert Status(room=7, poll=Poll.SUCCESS, prefill_rank=3).frames() == [b"7", b"4", b"3"]


def changed(frames: list[bytes], at: int, frame: bytes) -> list[bytes]:
    return [*frames[:at], frame, *frames[at + 1 :]]


REQUEST = KvRequest(room=7, endpoint=HERE, session=SESSION, required_dst_info_num=1, pages=(1, 2)).frames()
REGISTRATION = Registration(
    endpoint=HERE, session=SESSION, kv_pointers=(1,), aux_pointers=(2,), tp_rank=0, tp_size=1, kv_item_len=64
).frames()


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([b"7"], "2 to 32 frames"),
        ([b"7"] * 33, "2 to 32 frames"),
        (REQUEST[:7], "at least 8 frames"),
        (changed(REQUEST, 0, b"-1"), "the room is not a whole number"),
        (changed(REQUEST, 0, b"9223372036854775808"), "outside 0 to 9223372036854775807"),
        (changed(REQUEST, 0, b"9" * 5000), "the room is not a whole number"),
        (changed(REQUEST, 1, b"169.254.169.254"), "a metadata service"),
        (changed(REQUEST, 1, b"0.0.0.0"), "an unspecified address"),
        (changed(REQUEST, 1, b"None"), "the host is missing"),
        (changed(REQUEST, 2, b"70000"), "the port is 70000"),
        (changed(REQUEST, 3, b"\x80\x04\x95pickle"), "printable ASCII"),
        (changed(REQUEST, 3, b"no-port"), "the session is not host:port"),
        (changed(REQUEST, 4, b"abc"), "no multiple of 4"),
        (changed(REQUEST, 4, b"\xff\xff\xff\xff"), "negative"),
        (changed(REQUEST, 6, b"\xff\xff\xff\xff"), "announces 4294967295 lists"),
        (changed(REQUEST, 6, b"\x01\x00\x00\x00\x08\x00\x00\x00abcd"), "announces 8 bytes and holds 4"),
        (changed(REQUEST, 7, b"0"), "outside 1 to"),
        (REGISTRATION[:9], "at least 10 frames"),
        (changed(REGISTRATION, 8, b"0"), "the TP size is 0"),
        (changed(REGISTRATION, 14, bytes(16)), "2 entries, more than 1"),
        ([b"STAGING_RSP", b"7"], "belongs to staging"),
        ([b"BOOTSTRAP", b"7", b"10.0.0.1", b"5"], "prefill_complete"),
        ([b"ABORT", b"x"], "the room is not a whole number"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(frames, says):
    with pytest.raises(BadFrames, match=says):
        read_request(frames)


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([b"7", b"4"], "at least 3 frames"),
        ([b"7", b"5", b"0"], "outside 0 to 4"),
        ([b"CHUNK_READY", b"7"], "belongs to staging"),
        ([b"ABORT_ACK", b"7"], "at least 3 frames"),
        ([b"AUX_DATA", b"7", b"0", b"0", b"\x00\x00\x00\x05", b"four"], "another length"),
    ],
)
def test_what_is_wrong_with_a_reply_is_said(frames, says):
    with pytest.raises(BadFrames, match=says):
        read_reply(frames)


def test_an_abort_without_a_return_address_or_a_generation_is_read_as_sglang_reads_it():
    assert read_request([b"ABORT", b"7"]) == Abort(room=7)
    assert read_request([b"ABORT", b"7", b"10.0.0.1", b"5"]) == Abort(room=7, endpoint=Endpoint("10.0.0.1", 5))


def test_frames_that_newer_peers_add_are_passed_over():
    assert read_request([*REQUEST, b"more", b"and more"]) == read_request(REQUEST)
    assert read_request([*REGISTRATION, b"more"]) == read_request(REGISTRATION)
