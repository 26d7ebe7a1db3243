"""All that SGLang's own KV server was recorded to say, asked of a relay whose control plane is away: equal, or different for the
reason for which the control plane's own answer is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.wire.client import Client
from tests.wire.differences import DIFFERENCES
from tests.wire.replay import GROUPS, equals, replay
from tests.workers.relay.inside import Inside
from workers.relay import processes
from workers.relay.http import Server

ROOM_LIFE = 2.0
KV = [group for group, exchanges in GROUPS.items() if exchanges[0]["server"] == "kv"]


@pytest.mark.parametrize("group", KV)
async def test_the_recorded_exchanges_of_a_group_come_out_right(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # One process speaks here for launches of different shapes, so nobody's process must be seen.
    monkeypatch.setattr(processes, "find_peer", lambda *ends: None)
    relay = Inside(tmp_path / "relay", now=None)
    relay.open(room_seconds=ROOM_LIFE)
    server = Server(relay.door, relay.door.closed)
    port = await server.listen("127.0.0.1", 0)
    try:
        wrong = await asyncio.to_thread(differing, group, port)
    finally:
        await server.close()
        await relay.close()
    assert not wrong, "\n".join(wrong)


def differing(group: str, port: int) -> list[str]:
    # A decode that polls and has not noticed yet keeps a flush from ending between two requests.
    decode = Client(port, keep=True)
    assert decode.health() == 200
    wrong = []
    for exchange, answer in replay(group, Client(port), room_life=ROOM_LIFE):
        listed = DIFFERENCES.get(exchange["name"])
        if equals(exchange, answer):
            continue
        if listed is None or not listed.matches(answer.status, answer.content_type, answer.text):
            wrong.append(f"{exchange['name']}: recorded {exchange['response']}, listed {listed}, answered {answer}")
    decode.close()
    return wrong
