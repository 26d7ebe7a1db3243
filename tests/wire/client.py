"""A plain HTTP client that hides nothing, and the bodies that SGLang's ranks send."""

import base64
import contextlib
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

TEXT = "text/plain; charset=utf-8"
JSON = "application/json; charset=utf-8"
ENGINE_JSON = "application/json"
NOTHING = object()

ALL = {"prefill_dp_rank": -1, "prefill_cp_rank": -1, "target_tp_rank": -1, "target_pp_rank": -1}


def at(dp: int = 0, cp: int = 0, tp: int = 0, pp: int = 0) -> dict[str, int]:
    """The query of one slot's look-up."""
    return {"prefill_dp_rank": dp, "prefill_cp_rank": cp, "target_tp_rank": tp, "target_pp_rank": pp}


def rank(**facts: Any) -> dict[str, Any]:
    """The body of `PUT /route` as SGLang sends it: the only rank of a 1×1×1×1 instance, unless told otherwise."""
    return {
        "attn_tp_size": 1,
        "attn_tp_rank": 0,
        "attn_cp_size": 1,
        "attn_cp_rank": 0,
        "attn_dp_size": 1,
        "attn_dp_rank": 0,
        "pp_size": 1,
        "pp_rank": 0,
        "system_dp_size": 1,
        "system_dp_rank": 0,
        "rank_ip": "10.0.1.10",
        "rank_port": 41000,
        "page_size": 64,
        "kv_cache_dtype": "auto",
        "load_balance_method": "follow_bootstrap_room",
        "prefill_http_port": 30000,
        **facts,
    }


def engine_info(*, session: Any = "10.0.1.10:17001", weights: Any = None, **keys: Any) -> dict[str, Any]:
    """The body of `PUT /register_transfer_engine_info`; `keys` are tp_rank and rank."""
    weights = {"model.embed.weight": [140000000000000, 1048576, 2]} if weights is None else weights
    return {**keys, "transfer_engine_info": {"session_id": session, "weights_info_dict": weights}}


def basic(user: str, password: str = "x") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str | None
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        shown = self.text if len(self.body) < 300 else self.text[:300] + "…"
        return f"{self.status} {self.content_type} {shown}"


class Client:
    """Talks to one port. `headers` go with every request; each request has a connection of its own unless `keep`."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", headers: Mapping[str, str] | None = None, keep: bool = False
    ) -> None:
        self.host, self.port, self.headers, self.keep = host, port, dict(headers or {}), keep
        self._kept: http.client.HTTPConnection | None = None

    def __call__(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | str | None = None,
        *,
        js: Any = NOTHING,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Answer:
        if query:
            path += "?" + (query if isinstance(query, str) else urlencode(query))
        sent = {**self.headers, **(headers or {})}
        if js is not NOTHING:
            body = json.dumps(js).encode()
            sent.setdefault("Content-Type", "application/json")
        if not self.keep or self._kept is None:
            self._kept = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        connection = self._kept
        try:
            # A server may refuse before all is sent; like every real client, look for the answer then.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            content = response.read()
            return Answer(response.status, response.getheader("Content-Type"), content, dict(response.getheaders()))
        except BaseException:
            self.close()
            raise
        finally:
            if not self.keep:
                self.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    # What SGLang's clients do, by name.
    def put(self, **facts: Any) -> Answer:
        return self("PUT", "/route", js=rank(**facts))

    def topology(self) -> Answer:
        return self("GET", "/route", ALL)

    def slot(self, dp: int = 0, cp: int = 0, tp: int = 0, pp: int = 0) -> Answer:
        return self("GET", "/route", at(dp, cp, tp, pp))

    def bind(self, room: Any, dp: Any) -> Answer:
        return self("POST", "/register_dp_rank", js={"bootstrap_room": room, "dp_rank": dp})

    def find(self, *rooms: Any) -> Answer:
        return self("POST", "/query_dp_ranks", js={"bootstrap_rooms": list(rooms)})

    def health(self) -> int:
        return self("GET", "/health").status

    def publish(self, **fields: Any) -> Answer:
        return self("PUT", "/register_transfer_engine_info", js=engine_info(**fields))

    def weights(self, rank: Any, path: str = "/get_transfer_engine_info") -> Answer:
        return self("GET", path, {"rank": rank})
