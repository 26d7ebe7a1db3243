"""SGLang's own KV bootstrap server in a few lines, its known faults included: it counts calls, and forgets all at a restart.

Source: conn.py, CommonKVBootstrapServer.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.workers.sdk.server import Heard, Said, say

NAMES = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
NOT_FOUND = Said(404, b"404: Not Found")


class Directory:
    """Its `answer` is what a Server takes. `before(heard)` may answer instead of it."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, ...], dict[str, Any]] = {}
        self.facts: dict[str, Any] = {}
        self.calls = 0
        self.rooms: dict[int, int] = {}
        self.before: Any = lambda heard: None

    def restart(self) -> None:
        self.rows, self.facts, self.calls, self.rooms = {}, {}, 0, {}

    def answer(self, heard: Heard) -> Any:
        said = self.before(heard)
        if said is not None:
            return said
        parts = urlsplit(heard.path)
        match heard.method, parts.path:
            case "PUT", "/route":
                return self._put(heard.json())
            case "GET", "/route":
                query = dict(parse_qsl(parts.query))
                return self._get(tuple(int(query[name]) for name in NAMES))
            case "POST", "/register_dp_rank":
                self.rooms[heard.json()["bootstrap_room"]] = heard.json()["dp_rank"]
                return Said()
            case "POST", "/query_dp_ranks":
                asked = heard.json()["bootstrap_rooms"]
                return say({str(room): self.rooms[room] for room in asked if room in self.rooms})
            case "GET", "/health":
                return Said()
        return NOT_FOUND

    def _put(self, row: dict[str, Any]) -> Said:
        dp = row["attn_dp_rank"] if row["system_dp_size"] == 1 else row["system_dp_rank"]
        self.facts = self.facts or row
        self.rows[dp, row["attn_cp_rank"], row["attn_tp_rank"], row["pp_rank"]] = row
        self.calls += 1
        return Said()

    def _get(self, slot: tuple[int, ...]) -> Said:
        f = self.facts
        dp = (f["attn_dp_size"] if f["system_dp_size"] == 1 else f["system_dp_size"]) if f else 0
        if not f or self.calls < dp * f["attn_cp_size"] * f["attn_tp_size"] * f["pp_size"]:
            text = f"Prefill server not fully registered yet ({self.calls} workers registered)."
            return Said(503, text.encode())
        if slot == (-1, -1, -1, -1):
            same = (
                "attn_tp_size",
                "attn_cp_size",
                "pp_size",
                "page_size",
                "kv_cache_dtype",
                "enable_kv_cache_sharding",
            )
            follows = f["load_balance_method"] == "follow_bootstrap_room"
            more = {"dp_size": dp, "follow_bootstrap_room": follows, "prefill_http_port": f["prefill_http_port"]}
            return say({**{name: f[name] for name in same}, **more})
        row = self.rows.get(slot)
        if row is None:
            return Said(404, b"Bootstrap info not found")
        return say({"rank_ip": row["rank_ip"], "rank_port": row["rank_port"]})
