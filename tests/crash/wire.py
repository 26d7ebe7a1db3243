"""A small HTTP client that keeps apart what a crash test must keep apart: an answer, and a connection that closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"


class Unanswered(Exception):
    """No whole answer came: refused, reset, closed, or silent for too long. The request may have taken effect."""


class Silent(Unanswered):
    """The peer kept the connection open and said nothing in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection, kept alive and opened again when it broke. Not to be shared between tasks."""

    def __init__(self, port: int, *, timeout: float = 20.0) -> None:
        self.port = port
        self.timeout = timeout
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def connected(self) -> bool:
        return self._streams is not None

    async def ask(
        self, method: str, path: str, body: Any = None, *, instance: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer, or Unanswered. Nothing is sent twice."""
        payload = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{self.port}"]
        head += [f"Content-Length: {len(payload)}"] * bool(payload)
        head += [f"X-PD-Instance: {instance}"] * bool(instance)
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return await self.send("\r\n".join([*head, "", ""]).encode() + payload)

    async def send(self, raw: bytes) -> Answer:
        try:
            async with asyncio.timeout(self.timeout):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(HOST, self.port, limit=2**20)
                reader, writer = self._streams
                writer.write(raw)
                await writer.drain()
                return await self._read(reader)
        except TimeoutError:
            self.close()
            raise Silent(f"nothing within {self.timeout} s") from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as why:
            self.close()
            raise Unanswered(str(why)) from why
        except BaseException:
            self.close()
            raise

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.close()
        return Answer(int(head[0].split()[1]), body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def route_body(
    *, dp: int = 1, tp: int = 1, at: tuple[int, int] = (0, 0), ip: str, port: int, **more: Any
) -> dict[str, Any]:
    """A `PUT /route` as SGLang sends it, of the rank (dp, tp) `at`."""
    return {
        "attn_tp_size": tp,
        "attn_tp_rank": at[1],
        "attn_cp_size": 1,
        "attn_cp_rank": 0,
        "attn_dp_size": dp,
        "attn_dp_rank": at[0],
        "pp_size": 1,
        "pp_rank": 0,
        "system_dp_size": 1,
        "system_dp_rank": 0,
        "rank_ip": ip,
        "rank_port": port,
        "page_size": 64,
        "kv_cache_dtype": "auto",
        **more,
    }


def slot_path(dp: int, tp: int) -> str:
    return f"/route?prefill_dp_rank={dp}&prefill_cp_rank=0&target_tp_rank={tp}&target_pp_rank=0"


TOPOLOGY_PATH = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"


def engine_body(rank: int, session: str, weights: Mapping[str, list[int]]) -> bytes:
    info = {"session_id": session, "weights_info_dict": weights}
    return compact({"rank": rank, "transfer_engine_info": info})


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def eventually(client: Client, method: str, path: str, body: Any = None, *, within: float, **more: Any) -> Answer:
    """Ask until it is answered 200, as a client that does not give up; the last answer when time is over."""
    return await _until(lambda answer: answer.status == 200, client, method, path, body, within=within, **more)


async def settled(client: Client, method: str, path: str, body: Any = None, *, within: float, **more: Any) -> Answer:
    """Ask until the answer is anything but a 503."""
    return await _until(lambda answer: answer.status != 503, client, method, path, body, within=within, **more)


async def _until(good: Callable[[Answer], bool], client: Client, *request: Any, within: float, **more: Any) -> Answer:
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        try:
            answer = await client.ask(*request, **more)
        except Unanswered:
            if loop.time() >= end:
                raise
        else:
            if good(answer) or loop.time() >= end:
                return answer
        await asyncio.sleep(0.02)
