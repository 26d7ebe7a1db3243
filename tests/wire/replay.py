"""The recorded exchanges of SGLang 0.5.23's own servers, and how each is asked again."""

import json
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.wire.client import Answer, Client

Exchange = dict[str, Any]

EXCHANGES: list[Exchange] = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
GROUPS: dict[str, list[Exchange]] = {g: list(es) for g, es in groupby(EXCHANGES, key=lambda e: e["group"])}

LAYERS = (
    "self_attn.qkv_proj",
    "self_attn.o_proj",
    "mlp.gate_up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
    "mlp.experts.w13_weight",
    "mlp.experts.w2_weight",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "mlp.gate",
    "mlp.shared",
)
# How long the recording waited before these, as a part of the rooms' life.
WAITS = {
    "rooms-expiry/query-at-half-interval-visible": 0.4,
    "rooms-expiry/query-after-more-than-2x-interval-gone": 0.65,
}


def weights(count: int) -> dict[str, list[int]]:
    """The dictionary of the recording's large bodies."""
    return {
        f"model.layers.{i // 12}.{LAYERS[i % 12]}.weight": [139637976727552 + i * 33554432, 16777216, 2]
        for i in range(count)
    }


def _large(rank: int, count: int) -> dict[str, Any]:
    return {
        "tp_rank": rank,
        "transfer_engine_info": {"session_id": "10.0.0.1:12345", "weights_info_dict": weights(count)},
    }


# Bodies that the recording leaves out for their length, or could not write down.
BODIES: dict[str, Any] = {
    "rooms-malformed/query-body-over-1MiB": lambda: {"bootstrap_rooms": list(range(2**62, 2**62 + 60000))},
    "rooms-malformed/query-50000-small-rooms-under-1MiB": lambda: {"bootstrap_rooms": list(range(100000, 150000))},
    "engine-large/put-1000-tensors": lambda: _large(0, 1000),
    "engine-large/put-5000-tensors": lambda: _large(1, 5000),
    "engine-large/put-50000-tensors": lambda: _large(2, 50000),
    "put-malformed/invalid-utf8": lambda: b'{"a":"\xff\xfe"}',
}


def body_of(exchange: Exchange) -> bytes | None:
    asked = exchange["request"]
    if exchange["name"] in BODIES:
        made = BODIES[exchange["name"]]()
        return made if isinstance(made, bytes) else json.dumps(made).encode()
    if "raw_body" in asked:
        return str(asked["raw_body"]).encode()
    return json.dumps(asked["json"]).encode() if exchange.get("request_bytes") else None


def ask(client: Client, exchange: Exchange) -> Answer:
    asked = exchange["request"]
    body = body_of(exchange)
    if body is not None and "raw_body" not in asked:
        assert len(body) == exchange["request_bytes"], "not the body that was recorded"
    headers = {"Content-Type": asked.get("content_type") or "application/json"} if body is not None else {}
    if "raw_body" in asked and "content_type" not in asked:
        headers = {}
    return client(asked["method"], asked["path"], asked["query"], body=body, headers=headers)


def replay(group: str, client: Client, *, room_life: float = 0.0) -> Iterator[tuple[Exchange, Answer]]:
    for exchange in GROUPS[group]:
        time.sleep(WAITS.get(exchange["name"], 0) * room_life)
        yield exchange, ask(client, exchange)


def equals(exchange: Exchange, answer: Answer) -> bool:
    """Status, content type and body; of a shortened body both ends and the length."""
    said = exchange["response"]
    if (answer.status, answer.content_type) != (said["status"], said["content_type"]):
        return False
    if exchange.get("elided") and "...<elided>..." in said["body"]:
        head, _, tail = said["body"].partition("...<elided>...")
        whole = len(answer.body) == exchange["response_bytes"]
        return whole and answer.text.startswith(head) and answer.text.endswith(tail)
    return bool(answer.text == said["body"])
