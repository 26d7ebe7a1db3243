"""Whoever may register names addresses, and we connect to them: how often, and never to whom we must not."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cases.ranks import Ranks, complete, here
from tests.support.ports import free_port


class Victim:
    """Somebody else's service: it counts who connects, and keeps what they send."""

    def __init__(self) -> None:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(512)
        self.port = self.listener.getsockname()[1]
        self.connects: Counter[str] = Counter()
        self.heard = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, address = self.listener.accept()
            except OSError:
                return
            self.connects[address[0]] += 1
            peer.settimeout(0.2)
            with peer:
                try:
                    self.heard += peer.recv(1000)
                except OSError:
                    continue


@contextmanager
def victim() -> Iterator[Victim]:
    made = Victim()
    try:
        yield made
    finally:
        # Closing alone does not wake whoever waits in accept().
        made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()


@pytest.fixture
def ranks_here() -> Iterator[Ranks]:
    listening = Ranks()
    yield listening
    listening.close()


PROBING = {"PDCP_PROBE_INTERVAL_SECONDS": 0.3, "PDCP_PROBE_TIMEOUT_SECONDS": 2}


def test_addresses_outside_the_networks_are_never_connected_to_however_often_they_are_sent(serve):
    with victim() as other:
        one = serve("a", PDCP_PROBE_NETWORKS="10.0.0.0/8", **PROBING)
        client = one.kv("a")
        for tp in range(64):
            answer = client.put(**here(attn_tp_size=64, attn_tp_rank=tp, rank_port=other.port))
            assert answer.status in (200, 409)
        for ip in ("127.0.0.2", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "[::ffff:127.0.0.1]"):
            client.put(**here(attn_tp_size=64, attn_tp_rank=0, rank_ip=ip, rank_port=other.port))
        time.sleep(1.5)
        assert not other.connects


def test_a_flood_of_registrations_of_one_address_is_ten_probes_a_second(serve):
    """Two thousand PUTs, one address: whoever sends them cannot make us knock two thousand times."""
    with victim() as other:
        one = serve(*(f"i{n}" for n in range(20)), **PROBING)
        began = time.monotonic()
        for n in range(20):
            client = one.kv(f"i{n}", keep=True)
            for tp in range(100):
                client.put(**here(attn_tp_size=100, attn_tp_rank=tp, rank_port=other.port))
            client.close()
        time.sleep(1.5)
        took = time.monotonic() - began
        # Never twice at a time, nor within a tenth of a second. All of them say a greeting, and nothing that a stranger
        # could take as more.
        assert 0 < sum(other.connects.values()) <= 10 * took + 2
        assert set(other.heard) <= set(b"\xff\x00\x01\x7f\x03NUL")


def test_a_flood_of_foreign_addresses_does_not_keep_a_living_rank_from_being_probed(serve, ranks_here):
    """Closed ports by the hundred from one sender, and a launch of ours that completes among them."""
    one = serve("noisy", "ours", **PROBING)
    noisy, ours = one.kv("noisy"), one.kv("ours")
    for tp in range(300):
        noisy.put(**here(attn_tp_size=300, attn_tp_rank=tp, rank_port=free_port()))
    ours.put(**here(rank_port=ranks_here.open()))
    complete(ours)
