"""One side of a pair is SGLang's own: its real Mooncake manager, sender and receiver, on a real bootstrap server of ours."""

import base64
import secrets
import time

import pytest
import torch

from tests.workers.agent.pairs import Leg
from tests.workers.transfer.conftest import SGLangPeer, sglang_peer
from workers.agent.asking import Request
from workers.agent.decode import Decode
from workers.agent.groups import config_of
from workers.agent.prefill import Prefill
from workers.agent.ranks import Place
from workers.agent.running import PlainCache, Runner, oracle
from workers.agent.settings import Settings
from workers.sdk import requested_place

__all__ = ["sglang_peer"]

PAGE, PAGES, SLOT = 4, [7, 2, 30], 5
PROMPT = [5, 17, 99, 300, 11, 250, 3, 499, 42, 77, 180, 301]
BOTH = {"backend": "mooncake", "dtype": "bfloat16", "kv_cache_dtype": "auto", "page_size": PAGE, "timeout": 60.0}
# In bytes, as its buffers here are: bfloat16 heads of eight.
SIZES = {"layers": 4, "heads": 4, "head_dim": 16, "page": PAGE, "hidden": 64}


@pytest.fixture
def directory(sqlite_backend, make_bootstrap):
    return make_bootstrap(sqlite_backend).start()


def kv_of(prompt: list[int]) -> tuple[bytes, int]:
    """The KV of the prompt as SGLang's buffers hold it (K of all layers, then V), and the first token after it."""
    config = config_of(Settings(mode="decode", **BOTH))
    runner, cache = Runner(config), PlainCache(config.layers)
    token = runner.prefill(prompt, {Place(0, 0): cache})
    pairs = [cache.read(layer, len(prompt)) for layer in range(config.layers)]
    whole = torch.stack([keys for keys, _ in pairs] + [values for _, values in pairs])
    return whole.contiguous().view(torch.uint8).numpy().tobytes(), token


def until(peer: SGLangPeer, room: int) -> None:
    end = time.monotonic() + 60
    while (seen := peer.ask("poll", room=room)) != 4:
        assert seen != 0 and time.monotonic() < end, f"SGLang says {seen}"
        time.sleep(0.02)


def test_sglangs_receiver_finds_our_prefill_agent_and_gets_what_it_computed(directory, sglang_peer):
    kv = f"{directory.host}:{directory.kv_port}"
    sglang_peer.ask("start", mode="decode", port=directory.kv_port, **SIZES)
    agent = Prefill(Settings(mode="prefill", kv=kv, tp=2, launch_token=secrets.token_hex(8), **BOTH))
    try:
        agent.register(30000)
        room = 2**62 + 5
        sglang_peer.ask("receive", room=room, address=kv, pages=PAGES, slot=SLOT)
        said = agent.serve(Request(tuple(PROMPT), room, 1, None, "r", False))
        until(sglang_peer, room)
        bytes_of_kv, token = kv_of(PROMPT)
        assert said["output_ids"] == [token]
        assert sglang_peer.ask("got", slot=SLOT) == [token, room]
        assert base64.b64decode(sglang_peer.ask("pages", pages=PAGES)) == bytes_of_kv
    finally:
        agent.close()


def test_our_decode_agent_pulls_from_sglangs_prefill_manager_and_goes_on_from_there(directory, sglang_peer):
    kv = f"{directory.host}:{directory.kv_port}"
    sglang_peer.ask("start", mode="prefill", port=directory.kv_port, **SIZES)
    bytes_of_kv, token = kv_of(PROMPT)
    sglang_peer.ask("put", pages=PAGES, kv=base64.b64encode(bytes_of_kv).decode())
    agent = Decode(Settings(mode="decode", tp=2, launch_token=secrets.token_hex(8), **BOTH))
    try:
        room, place = 2**62 + 6, requested_place(directory.host, directory.kv_port)
        leg = Leg(agent.serve, Request(tuple(PROMPT), room, 9, place, "r", False))
        sending = {"room": room, "address": kv, "pages": PAGES, "slot": 3, "token": token, "written_room": room}
        sglang_peer.ask("send", **sending)
        assert leg.end()["output_ids"] == oracle(config_of(agent.settings), PROMPT, 9)
        until(sglang_peer, room)
    finally:
        agent.close()
