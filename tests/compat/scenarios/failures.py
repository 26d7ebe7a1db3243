"""Something dies: the server, a prefill that a decode has cached, or the directory itself."""

import time
from collections.abc import Iterator
from typing import Any

from sglang.srt.disaggregation.base.conn import KVPoll
from sglang.srt.disaggregation.common.conn import CommonKVReceiver, CommonKVSender

from tests.compat import harness
from tests.compat.harness import Prefill, Shape

# The real decode beats every 5 s; the thread reads this attribute, so tests need not wait that long.
BEAT_SECONDS = 0.25


def heartbeat_until_the_server_is_gone(port: int) -> Iterator[dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    Prefill(Shape(), port).register_all()
    decode = harness.decode_rank()
    beats: list[str] = []
    decode._on_heartbeat_success = beats.append
    _fill(decode, address, room=1)
    decode.heartbeat_interval = BEAT_SECONDS
    decode._start_heartbeat_checker_thread()
    time.sleep(8 * BEAT_SECONDS)
    harness.wait_until(lambda: len(beats) >= 5, within=15)
    yield {"beats": len(beats), "still_cached": address in decode.prefill_info_table}
    dropped_after = harness.wait_until(lambda: address not in decode.prefill_info_table, within=30)
    failed = harness.wait_until(lambda: decode.check_status(1) == KVPoll.Failed, within=10) is not None
    decode._heartbeat_shutdown.set()
    yield {"dropped_after": dropped_after, "room_failed": failed, "reason": decode.failure_records.get(1)}


def restart_a_prefill_that_a_decode_has_cached(port: int, patience: float, pause: float) -> Iterator[dict[str, Any]]:
    """The decode learns of the new ports through /health alone; nobody tells it anything.

    `pause` lies between the death of the old launch and the first registration of the new one.
    """
    old = Prefill(Shape(tp=2), port).register_all()
    decodes = _decodes([port])
    yield _restart(old, decodes, patience, pause)


def restart_a_prefill_beside_others_that_hang(
    port: int, others: list[int], patience: float
) -> Iterator[dict[str, Any]]:
    """The decode's heartbeat asks one prefill after another, and waits for seconds for each that hangs. Between the two
    yields the test makes the others hang."""
    for other in others:
        Prefill(Shape(tp=2), other).register_all()
    old = Prefill(Shape(tp=2), port).register_all()
    decodes = _decodes([*others, port])
    yield {"cached": [len(decode.prefill_info_table) for decode in decodes]}
    yield _restart(old, decodes, patience, pause=0)


def _decodes(ports: list[int]) -> list[Any]:
    """Two decode ranks that have all of these prefills cached, in this order, and beat."""
    decodes = [harness.decode_rank(tp=2, rank=rank) for rank in range(2)]
    for decode in decodes:
        for room, port in reversed(list(enumerate(reversed(ports), start=1))):
            _fill(decode, f"127.0.0.1:{port}", room=room)
        decode.heartbeat_interval = BEAT_SECONDS
        decode._start_heartbeat_checker_thread()
    # A flush waits for whoever polls: each of them has polled a few times.
    time.sleep(4 * BEAT_SECONDS)
    return decodes


def _restart(old: Prefill, decodes: list[Any], patience: float, pause: float) -> dict[str, Any]:
    """What becomes of requests of the decodes, from the death of the old launch until all go to the new one."""
    shape, port = old.shape, old.port
    address = f"127.0.0.1:{port}"
    quiet = [_ports(decode, address, room=8) for decode in decodes]
    old.die()
    died = time.monotonic()
    time.sleep(pause)
    new = Prefill(shape, port).register_all()
    wanted = [[new.ranks[slot].rank_port] for slot in shape.slots]
    seen: list[Any] = []
    room = 10
    while time.monotonic() - died < patience:
        room += 1
        got = [_ports(decode, address, room) for decode in decodes]
        if not seen or seen[-1][1] != got:
            seen.append([round(time.monotonic() - died, 2), got])
        if got == wanted:
            break
        time.sleep(0.05)
    # A second flush would fail rooms that already went to the new launch.
    time.sleep(6 * BEAT_SECONDS)
    undisturbed = [decode.check_status(room) == KVPoll.WaitingForInput for decode in decodes]
    arrived = {str(slot): len(new.frames(slot)) for slot in shape.slots}
    for decode in decodes:
        decode._heartbeat_shutdown.set()
    return {
        "old": [[old.ranks[slot].rank_port] for slot in shape.slots],
        "new": wanted,
        "before": quiet,
        "seen": seen,
        "took": round(time.monotonic() - died, 2),
        "undisturbed_afterwards": undisturbed,
        "frames_at_new_ranks": arrived,
        "rooms_in_flight_failed": [decode.check_status(1) == KVPoll.Failed for decode in decodes],
    }


def resolve_again_after_the_directory_was_killed(port: int) -> Iterator[dict[str, Any]]:
    """Nobody registers a second time: real ranks register once in their life."""
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(dp=2, tp=2), port).register_all()
    cached = harness.decode_rank(tp=2, rank=1)
    _fill(cached, address, room=1)
    # Unhurried, at the interval it really has: an outage shorter than that costs one miss, and two are a death.
    beats: list[str] = []
    cached._on_heartbeat_success = beats.append
    cached._start_heartbeat_checker_thread()
    with harness.published(dp_size=2, load_balance_method="round_robin"):
        prefill.ranks[1, 0, 0, 0].attn_dp_rank = 1
        CommonKVSender(prefill.ranks[1, 0, 0, 0], address, 77)
    yield {"registered": len(prefill.ranks)}
    fresh = harness.decode_rank(tp=2, rank=1)
    heard = len(beats)
    harness.wait_until(lambda: len(beats) > heard, within=3 * cached.heartbeat_interval)
    yield {
        "room_in_flight_survived": cached.check_status(1) == KVPoll.WaitingForInput,
        "ready": harness.is_ready(fresh, address, within=20),
        "wanted": [prefill.ranks[1, 0, 1, 0].rank_port],
        "fresh": _ports(fresh, address, room=2, dp=1),
        "cached": _ports(cached, address, room=3, dp=1),
        "room": CommonKVReceiver.query_prefill_dp_ranks(address, [77]),
    }


def _fill(decode: Any, address: str, room: int) -> None:
    assert harness.is_ready(decode, address)
    receiver = harness.receive(decode, address, room)
    assert receiver.poll() == KVPoll.WaitingForInput, decode.failure_records.get(room)


def _ports(decode: Any, address: str, room: int, dp: int = 0) -> list[int] | None:
    """Where a new request of this decode would go; None when it fails for now."""
    decode.try_ensure_parallel_info(address)
    receiver = harness.receive(decode, address, room, dp)
    infos = receiver.bootstrap_infos if receiver.poll() == KVPoll.WaitingForInput else None
    return [found["rank_port"] for found in infos] if infos else None
