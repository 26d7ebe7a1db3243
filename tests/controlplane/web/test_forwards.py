"""`/i/NAME/…` on the web process, before a real bootstrap process; pages behind it keep Django's checks."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

import httpx
import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from django.test import override_settings

from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation.payload import route_row
from controlplane.simulation.shape import Shape
from controlplane.web import forwards
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap

FACTS = SharedFacts(page_size=64, kv_cache_dtype="auto")
TOPOLOGY = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
HOSTS = ["10.0.0.5:8998", "10.244.3.7", "cp.default.svc", "[::1]:8998"]


def row(tp: int = 0, size: int = 1, port: int = 1) -> dict:
    return route_row(Shape(1, 1, size, 1, 1), Slot(0, 0, tp, 0), FACTS, ip="127.0.0.1", port=port, http_port=30000)


@contextlib.asynccontextmanager
async def web(bootstrap: Bootstrap, **knobs: object) -> AsyncIterator[tuple[str, int]]:
    """The ASGI application of the web process on a port of its own, in this event loop."""
    known = {
        "PDCP_BOOTSTRAP_HOST": bootstrap.host,
        "PDCP_KV_PORT": bootstrap.kv_port,
        "PDCP_ENGINE_INFO_PORT": bootstrap.engine_port,
    }
    with override_settings(**{**known, **knobs}), socket.create_server(("127.0.0.1", 0)) as listener:
        application = forwards.in_front_of(get_asgi_application())
        config = uvicorn.Config(application, lifespan="off", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        task = asyncio.create_task(server.serve([listener]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield listener.getsockname()[:2]
        finally:
            server.should_exit = True
            await task


def base(address: tuple[str, int]) -> str:
    return f"http://{address[0]}:{address[1]}"


async def raw(address: tuple[str, int], request: bytes) -> bytes:
    """One request as bytes, for what no client library would send; the connection is closed after it."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 40)
    writer.close()
    return answer


@pytest.fixture
def served(sqlite_backend: Backend, make_bootstrap) -> Bootstrap:
    # It probes nobody: what is compared would change when it has found that nobody listens at a rank's address.
    return make_bootstrap(sqlite_backend, PDCP_PROBE_NETWORKS="none").start()


async def test_the_wires_answer_through_the_web_process_as_they_do_directly(served):
    async with web(served) as address, httpx.AsyncClient(timeout=60) as client:
        through, direct = f"{base(address)}/i/p", f"{served.kv_url}/i/p"
        assert (await client.put(f"{through}/route", json=row(port=4000))).text == "OK"
        await client.put(f"{through}/route", json={"nonsense": 1})
        for path in ("/route", f"/route?{TOPOLOGY}", "/health", "/nothing", "/route/"):
            ours, theirs = await client.get(through + path), await client.get(direct + path)
            told = [(a.status_code, a.content, a.headers["content-type"]) for a in (ours, theirs)]
            assert told[0] == told[1], path
        room = {"bootstrap_room": 2**62, "dp_rank": 0}
        assert (await client.post(f"{through}/register_dp_rank", json=room)).status_code == 200
        found = await client.post(f"{through}/query_dp_ranks", json={"bootstrap_rooms": [2**62, 5]})
        assert found.json() == {str(2**62): 0}
        assert (await client.delete(f"{through}/route")).status_code == 405
        assert (await client.head(f"{through}/health")).status_code == 200


async def test_a_decode_resolves_through_the_web_process_in_one_round_trip_and_is_told_when_nothing_changed(served):
    async with web(served) as address, httpx.AsyncClient(timeout=60) as client:
        through = f"{base(address)}/i/p"
        asks = {"decode": {"tp_size": 1, "is_mla": False}}
        not_yet = await client.post(f"{through}/pd/v1/resolve", json=asks)
        assert (not_yet.status_code, "p is not known" in not_yet.text) == (404, True)
        await client.put(f"{through}/route", json=row(port=4000))
        found = await client.post(f"{through}/pd/v1/resolve", json=asks)
        assert found.status_code == 200 and found.json()["ranks"][0]["groups"][0]["targets"][0]["address"].endswith(
            ":4000"
        )
        direct = await client.post(f"{served.kv_url}/i/p/pd/v1/resolve", json=asks)
        assert (found.content, found.headers["etag"]) == (direct.content, direct.headers["etag"])
        same = await client.post(
            f"{through}/pd/v1/resolve", json=asks, headers={"if-none-match": found.headers["etag"]}
        )
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", found.headers["etag"])
        wrong = await client.post(f"{through}/pd/v1/resolve", json={"decode": 7})
        assert (wrong.status_code, wrong.text) == (400, "decode: expected object, got int")


async def test_the_sdk_resolves_at_the_one_url_of_the_web_process(served):
    from workers.sdk import AsyncClient, ControlPlane, Question, read_decode

    async with web(served) as address, httpx.AsyncClient(timeout=60) as client:
        await client.put(f"{base(address)}/i/p/route", json=row(port=4000))
        async with AsyncClient(ControlPlane.at(f"{base(address)}/i/p")) as worker:
            found = await worker.resolve(Question(read_decode({"tp_size": 1, "is_mla": False})), within=30)
        assert (found.instance, found.launch, found.targets(0)[0].port) == ("p", 1, 4000)


async def test_engine_info_passes_through_to_the_last_digit(served):
    info = {"session_id": "10.0.0.1:9999", "weights_info_dict": {f"w{i}": [2**63 - 1 - i, i, 2] for i in range(5000)}}
    async with web(served) as address, httpx.AsyncClient(timeout=60) as client:
        through = f"{base(address)}/i/seed"
        body = {"tp_rank": 0, "transfer_engine_info": info}
        assert (await client.put(f"{through}/register_transfer_engine_info", json=body)).status_code == 200
        for path in forwards.ENGINE_PATHS - {"register_transfer_engine_info"}:
            found = await client.get(f"{through}/{path}?rank=0")
            assert found.json()["remote_instance_transfer_engine_info"][1] == info["weights_info_dict"]
        gone = await client.get(f"{through}/get_transfer_engine_info?rank=7")
        assert (gone.status_code, "detail" in gone.json()) == (404, True)


@pytest.mark.parametrize("case", ["NET-14"])
async def test_any_host_header_is_taken_for_the_wire_and_none_for_pages(served, case):
    async with web(served) as address, httpx.AsyncClient(timeout=60) as client:
        for host in HOSTS:
            headers = {"host": host}
            put = await client.put(f"{base(address)}/i/p/route", json=row(port=4000), headers=headers)
            assert (put.status_code, put.text) == (200, "OK")
            assert (await client.get(f"{base(address)}/i/p/health", headers=headers)).status_code == 200
            asked = await client.get(f"{base(address)}/i/p/route", headers=headers)
            assert (asked.status_code, asked.headers["content-type"]) == (400, "text/plain; charset=utf-8")
        answer = await raw(address, b"GET /i/p/health HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"OK")
        assert (await client.get(f"{base(address)}/", headers={"host": "evil.example"})).status_code == 400
        assert (await client.get(f"{base(address)}/sign-in/")).status_code == 200


async def test_without_a_bootstrap_process_it_is_502_and_a_sentence_and_afterwards_well_again(
    sqlite_backend, make_bootstrap
):
    bootstrap = make_bootstrap(sqlite_backend)
    async with web(bootstrap) as address, httpx.AsyncClient(timeout=60) as client:
        url = f"{base(address)}/i/p/health"
        away = await client.get(url)
        assert (away.status_code, away.headers["content-type"]) == (502, "text/plain; charset=utf-8")
        assert away.text == "the bootstrap process does not answer (PDCP_KV_PORT): nobody listens there; try again"
        await asyncio.to_thread(bootstrap.start)
        assert (await client.put(f"{base(address)}/i/p/route", json=row(port=4000))).status_code == 200
        assert (await client.get(url)).status_code == 200
        # Connections that were kept are dead now; nobody outside notices.
        await asyncio.to_thread(bootstrap.restart)
        assert (await client.get(url)).status_code == 200
        assert (await client.put(f"{base(address)}/i/p/route", json=row(port=4000))).status_code == 200
        bootstrap.freeze()
        begun = time.monotonic()
        frozen = await client.get(url)
        assert (frozen.status_code, "no answer within 5 s" in frozen.text) == (502, True)
        assert 4 < time.monotonic() - begun < 25
        bootstrap.thaw()


async def test_what_is_too_large_or_not_allowed_is_refused_here(served):
    async with (
        web(served, PDCP_KV_BODY_LIMIT_BYTES=1000, PDCP_ENGINE_BODY_LIMIT_BYTES=2000) as address,
        httpx.AsyncClient(timeout=60) as client,
    ):
        big = await client.put(f"{base(address)}/i/p/route", content=b"x" * 1001)
        assert (big.status_code, big.text) == (413, "the body is larger than the limit of 1000 bytes")

        async def parts():
            for _ in range(30):
                yield b"x" * 100

        streamed = await client.put(f"{base(address)}/i/p/register_transfer_engine_info", content=parts())
        assert streamed.status_code == 413
        assert streamed.json() == {"detail": "the body is larger than the limit of 2000 bytes"}
    async with web(served, PDCP_UPLOAD_BUDGET_BYTES=10) as address, httpx.AsyncClient(timeout=60) as client:
        full = await client.put(f"{base(address)}/i/p/route", json=row(port=4000))
        assert (full.status_code, "too many large uploads" in full.text) == (503, True)
        assert (await client.get(f"{base(address)}/i/p/health")).status_code == 404


async def test_who_may_write_is_decided_by_the_real_peer(served):
    from ipaddress import ip_network

    async with (
        web(served, PDCP_REGISTER_NETWORKS=(ip_network("10.0.0.0/8"),)) as address,
        httpx.AsyncClient(timeout=60) as client,
    ):
        headers = {"x-real-ip": "10.0.0.1"}
        refused = await client.put(f"{base(address)}/i/p/route", json=row(port=4000), headers=headers)
        assert (refused.status_code, refused.text) == (403, "127.0.0.1 may not register here (PDCP_REGISTER_NETWORKS)")
        asked = await client.post(f"{base(address)}/i/p/query_dp_ranks", json={"bootstrap_rooms": [1]})
        assert asked.status_code in (200, 404)


class Recorder:
    """Stands where the bootstrap process would, answers OK, and remembers each connection's requests."""

    def __init__(self) -> None:
        self.host, self.kv_port, self.engine_port = "127.0.0.1", 0, 0
        self.connections: list[list[dict[str, str]]] = []

    async def __aenter__(self) -> "Recorder":
        self._server = await asyncio.start_server(self._serve, self.host, 0)
        self.kv_port = self.engine_port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[dict[str, str]] = []
        self.connections.append(requests)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
                await reader.readexactly(int(headers.get("content-length", "0")))
                requests.append({"": head[0], **headers})
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-pd-note: hello\r\nserver: x\r\n\r\nOK")


async def test_headers_of_the_wire_pass_and_credentials_do_not():
    async with Recorder() as recorder, web(recorder) as address, httpx.AsyncClient(timeout=60) as client:
        headers = {
            "authorization": "Basic c2VjcmV0OnNlY3JldA==",
            "cookie": "sessionid=1",
            "x-pd-generation": "g1",
            "x-sglang-disaggregation-instance-id": "s1",
            "x-forwarded-for": "10.9.9.9",
        }
        path = "/i/p%2Dq/route?a=%2B0&a=1"
        answer = await client.put(base(address) + path, content=b"{}", headers=headers)
        assert answer.headers["x-pd-note"] == "hello"
        (request,) = recorder.connections[0]
        assert request[""] == f"PUT {path} HTTP/1.1"
        assert (request["x-pd-generation"], request["x-sglang-disaggregation-instance-id"]) == ("g1", "s1")
        assert not {"authorization", "cookie", "x-forwarded-for"} & request.keys()


async def test_each_client_s_health_checks_take_a_connection_of_their_own():
    async with Recorder() as recorder, web(recorder) as address:
        async with (
            httpx.AsyncClient(base_url=base(address), timeout=60) as one,
            httpx.AsyncClient(base_url=base(address), timeout=60) as two,
        ):
            for _ in range(3):
                for client in (one, two):
                    assert (await client.get("/i/p/health")).status_code == 200
            for _ in range(4):
                await one.get(f"/i/p/route?{TOPOLOGY}")
        polls = [sum("/health" in request[""] for request in seen) for seen in recorder.connections]
        assert sorted(polls) == [0, 3, 3]


async def test_a_body_that_never_ends_is_not_waited_for_and_one_that_stops_is_forgotten(monkeypatch):
    monkeypatch.setattr("controlplane.web.uploads.BODY_SECONDS", 0.2)
    async with Recorder() as recorder, web(recorder) as address:
        answer = await raw(
            address, b"PUT /i/p/route HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nconnection: close\r\n\r\n{"
        )
        assert answer.startswith(b"HTTP/1.1 408") and b"did not arrive within" in answer
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"PUT /i/p/route HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.05)
        assert recorder.connections == []


async def test_only_the_wire_s_own_paths_are_forwarded():
    async with Recorder() as recorder, web(recorder) as address, httpx.AsyncClient(timeout=60) as client:
        for path in ("/i/p/admin/", "/i/p/livez", "/i/p", "/i/", "/i/p/route/x"):
            answer = await client.get(base(address) + path)
            assert (answer.status_code, answer.text) == (404, "404: Not Found"), path
        assert recorder.connections == []
