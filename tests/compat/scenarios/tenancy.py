"""Two prefill instances behind one port, and unmodified decodes that tell them apart by bootstrap_host."""

from collections.abc import Iterator
from typing import Any

from sglang.srt.disaggregation.common.conn import CommonKVReceiver, CommonKVSender

from tests.compat import harness
from tests.compat.harness import Prefill, Shape


def name_an_instance_in_bootstrap_host(port: int) -> Iterator[dict[str, Any]]:
    names = ("prefill-a", "prefill-b")
    prefills = {name: Prefill(Shape(dp=2), port, name).register_all() for name in names}
    # The password is ignored, but `requests` sends no user name without one.
    addresses = {name: f"{name}:x@127.0.0.1:{port}" for name in names}
    found, rooms = {}, {}
    beats: dict[str, list[str]] = {name: [] for name in names}
    for name, address in addresses.items():
        decode = harness.decode_rank()
        heard = beats[name]
        decode._on_heartbeat_success = heard.append
        if not harness.is_ready(decode, address):
            continue
        infos = [harness.receive(decode, address, room=1, dp=dp).bootstrap_infos for dp in range(2)]
        found[name] = [info[0]["rank_port"] for info in infos]
        decode.heartbeat_interval = 0.1
        decode._start_heartbeat_checker_thread()
        with harness.published(dp_size=2, load_balance_method="round_robin"):
            dp = names.index(name)
            rank = prefills[name].ranks[dp, 0, 0, 0]
            CommonKVSender(rank, address, 5)
        harness.wait_until(lambda heard=heard: len(heard) >= 2, within=20)  # type: ignore[misc]
    for name, address in addresses.items():
        rooms[name] = CommonKVReceiver.query_prefill_dp_ranks(address, [5])
    nameless = harness.decode_rank()
    yield {
        "wanted": {n: [p.ranks[dp, 0, 0, 0].rank_port for dp in range(2)] for n, p in prefills.items()},
        "found": found,
        "rooms": rooms,
        "beats": {name: len(heard) for name, heard in beats.items()},
        "nameless_is_ready": nameless.try_ensure_parallel_info(f"127.0.0.1:{port}"),
    }
