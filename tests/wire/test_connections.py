"""Clients that are slow, too large, too many or speak broken HTTP, beside one that only wants its answer."""

import contextlib
import http.client
import json
import resource
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
import requests

from tests.support.machine import slowness
from tests.wire.client import ENGINE_JSON, TEXT, Answer, Client, at, engine_info, rank
from tests.wire.conftest import Server
from tests.wire.raw import HungUp, Wire, ask, request

MIB = 2**20
KV_LIMIT, ENGINE_LIMIT = 4 * MIB, 16 * MIB
IDLE = 5000
# How long a body and a whole request may take before the server lets go, as the wire's code says, and some.
BODY_SECONDS, REQUEST_SECONDS, KEEP_ALIVE_SECONDS = 30, 60, 90


def rss(server: Server) -> int:
    process = psutil.Process(server.process.pid)
    return sum(p.memory_info().rss for p in (process, *process.children(recursive=True)))


@contextlib.contextmanager
def another_client(server: Server, *, worst: float) -> Iterator[list[float]]:
    """Look-ups, a heartbeat and a registration all the while; each must be answered, and within `worst` seconds."""
    times: list[float] = []
    wrong: list[object] = []
    stop = threading.Event()
    client = server.kv("steady", keep=True)

    def beat() -> Answer:
        return client("GET", "/health")

    def again() -> Answer:
        return client.put(rank_port=48000)

    assert again().status == 200

    def work() -> None:
        while not stop.is_set():
            for step in (client.slot, client.topology, beat, again):
                began = time.monotonic()
                answer = step()
                times.append(time.monotonic() - began)
                if answer.status != 200:
                    wrong.append(answer)
            time.sleep(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join(90)
    assert not wrong, wrong[:3]
    assert times and max(times) / slowness() < worst, f"the slowest of {len(times)} answers took {max(times):.2f} s"


# --- Too large -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "path", "method", "limit"),
    [
        ("kv", "/route", "PUT", KV_LIMIT),
        ("kv", "/register_dp_rank", "POST", KV_LIMIT),
        ("kv", "/query_dp_ranks", "POST", KV_LIMIT),
        ("engine", "/register_transfer_engine_info", "PUT", ENGINE_LIMIT),
    ],
)
def test_a_body_over_the_limit_is_refused_before_it_is_read(server: Server, wire, path, method, limit):
    port = server.process.kv_port if wire == "kv" else server.process.engine_port
    declared = ask(port, request(method, path, headers={"Content-Length": limit + 1}))
    assert declared.status == 413
    assert str(limit) in declared.text
    assert declared.content_type == (TEXT if wire == "kv" else ENGINE_JSON)
    if wire == "engine":
        assert str(limit) in json.loads(declared.body)["detail"]
    with Wire(port) as chunked:
        chunked.send(request(method, path, headers={"Transfer-Encoding": "chunked"}))
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        with contextlib.suppress(OSError):
            for _ in range(limit // 65536 + 1):
                chunked.send(piece)
        answer = chunked.answer()
    assert (answer.status, answer.content_type) == (413, declared.content_type)
    assert str(limit) in answer.text


@pytest.mark.parametrize("size", [24 * MIB, 200 * MIB], ids=["24MiB", "200MiB"])
@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
def test_a_real_client_that_sends_too_much_reads_the_413(server: Server, size, chunked):
    """The whole body is on its way before a client looks for the answer: closing at once would lose it in a reset."""
    before = rss(server)
    for wire, limit in (("engine", ENGINE_LIMIT), ("kv", KV_LIMIT)):
        path = "/register_transfer_engine_info" if wire == "engine" else "/route"
        url = (server.process.engine_url if wire == "engine" else server.process.kv_url) + path
        piece = b" " * MIB
        body = (piece for _ in range(size // MIB)) if chunked else piece * (size // MIB)
        answer = requests.put(url, data=body, timeout=60)
        assert answer.status_code == 413
        assert str(limit) in answer.text and "<" not in answer.text
    assert rss(server) - before < 80 * MIB


def test_a_body_of_exactly_the_limit_is_read(server: Server):
    kv = server.kv("exact")
    body = json.dumps(rank()).encode()
    assert kv("PUT", "/route", body=body + b" " * (KV_LIMIT - len(body))).status == 200
    engine = server.engine("exact")
    body = json.dumps(engine_info(tp_rank=0)).encode()
    assert engine("PUT", "/register_transfer_engine_info", body=body + b" " * (ENGINE_LIMIT - len(body))).status == 200


def test_a_limit_is_a_setting(serve):
    small = serve("a", PDCP_KV_BODY_LIMIT_BYTES=2048, PDCP_ENGINE_BODY_LIMIT_BYTES=4096)
    assert small.kv().put(dsv41_spec_layout={"x": "y" * 1000}).status == 200
    refused = small.kv().put(dsv41_spec_layout={"x": "y" * 2000})
    assert refused.status == 413 and "2048" in refused.text
    assert "4096" in small.engine().publish(tp_rank=0, weights={"w" * 5000: [1, 2, 4]}).text


# --- Too slow ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow(server: Server) -> Iterator[tuple[float, list[Wire]]]:
    """Bodies that stopped half-way, opened with the module's first test and judged by its last."""
    head = {"Content-Length": 1000}
    wires = [Wire(server.process.kv_port, timeout=60) for _ in range(100)]
    for wire in wires:
        wire.send(request("PUT", "/i/slow/route", headers=head), b'{"attn_tp_size": 1,')
    yield time.monotonic(), wires
    for wire in wires:
        wire.socket.close()


@pytest.fixture(autouse=True)
def _slow_ones_all_the_while(slow) -> None:
    """Every test of this module runs beside them."""


def test_bodies_that_arrive_byte_by_byte_keep_nobody_waiting(server: Server):
    body = json.dumps(rank(rank_port=48001)).encode()
    wires = [Wire(server.process.kv_port) for _ in range(200)]
    with another_client(server, worst=2):
        for wire in wires:
            wire.send(request("PUT", "/i/bytewise/route", headers={"Content-Length": len(body)}))
        for n in range(0, len(body), len(body) // 20):
            for wire in wires:
                wire.send(body[n : n + len(body) // 20])
        answers = [wire.answer() for wire in wires]
    assert {answer.status for answer in answers} == {200}
    for wire in wires:
        wire.socket.close()


def test_slow_uploads_do_not_keep_a_rank_from_publishing(server: Server):
    """A rank publishes once and does not retry: others that announced much and send nothing must not cost it its one try."""
    weights = {f"model.layers.{n}.weight": [140 * 10**12 + n * 4096, 1024, 2] for n in range(1200)}
    plain = request("PUT", "/register_transfer_engine_info", headers={"Content-Length": ENGINE_LIMIT})
    chunked = request("PUT", "/register_transfer_engine_info", headers={"Transfer-Encoding": "chunked"})
    wires = [Wire(server.process.engine_port) for _ in range(60)]
    for n, wire in enumerate(wires):
        wire.send(plain + b"{" if n % 2 else chunked + b"1\r\n{\r\n")
    time.sleep(0.2)
    began = time.monotonic()
    answer = server.engine("prompt").publish(tp_rank=0, weights=weights)
    took = time.monotonic() - began
    for wire in wires:
        wire.socket.close()
    assert answer.status == 200, answer
    assert took / slowness() < 3, f"it took {took:.1f} s"


def test_a_client_that_does_not_read_is_not_written_to_for_ever(server: Server):
    engine = server.engine("unread")
    weights = {f"model.layers.{n}.weight": [140 * 10**12 + n, 1024, 2] for n in range(20_000)}
    assert engine.publish(tp_rank=0, weights=weights).status == 200
    before = rss(server)
    asking = request("GET", "/i/unread/get_transfer_engine_info?rank=0")
    wires = [Wire(server.process.engine_port) for _ in range(20)]
    with another_client(server, worst=3):
        for wire in wires:
            wire.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                wire.send(asking * 200)
        time.sleep(1)
        grown = rss(server) - before
    for wire in wires:
        wire.socket.close()
    # 20 clients asked 200 times for 1 MB each; what waits for them is bounded.
    assert grown < 150 * MIB, f"{grown / MIB:.0f} MiB"


# --- Too many ------------------------------------------------------------------------------------------------


def test_five_thousand_idle_connections_leave_the_others_alone(server: Server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 500:
        pytest.skip(f"only {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 500), hard))
    idle: list[Wire] = []
    before = rss(server)
    try:
        with another_client(server, worst=3) as times:
            for n in range(IDLE):
                idle.append(Wire(server.process.kv_port))
                if n % 2:
                    idle[-1].send(request("GET", "/i/steady/health"))
            time.sleep(1)
        held = rss(server) - before
        assert sorted(times)[len(times) // 2] / slowness() < 0.2
        assert held < IDLE * 20_000, f"{held / IDLE:.0f} bytes a connection"
        # They are still connected, and are answered when they ask.
        assert all(wire.answer().status == 200 for wire in idle[1::2])
        for wire in idle[:20]:
            assert wire.send(request("GET", "/i/steady/health")).answer().status == 200
        assert server.kv()("GET", "/readyz").json()["connections"] >= IDLE
    finally:
        for wire in idle:
            wire.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_answered(server: Server) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return server.kv().put().status == 200
    return False


def test_past_the_descriptor_limit_the_longest_idle_go_and_work_goes_on(serve):
    one = serve("a", PDCP_PROBE_NETWORKS="none")
    # The limit of an already running process: its own bound was made for more, so accept itself fails now.
    held = len(psutil.Process(one.process.pid).net_connections()) + psutil.Process(one.process.pid).num_fds()
    resource.prlimit(one.process.pid, resource.RLIMIT_NOFILE, (held + 50, held + 50))
    idle: list[Wire] = []
    for _ in range(120):
        with contextlib.suppress(OSError):
            idle.append(Wire(one.process.kv_port, timeout=2))
    for wire in idle:
        wire.socket.close()
    # It recovers by itself when connections go away.
    end = time.monotonic() + 15
    while not is_answered(one):
        assert time.monotonic() < end, one.process.log()[-2000:]
        time.sleep(0.05)
    assert len(one.process.log().splitlines()) < 300, "and did not tell of each of them"


# --- HTTP ----------------------------------------------------------------------------------------------------

BROKEN = (
    b"\x00\x01\x02\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 300 + b"\r\n\r\n",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"PUT /route HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"GET /health HTTP/1.1\r\nHost\x00: x\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\n folded: y\x00\r\n\r\n",
    b"GET /route?\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"BREW /route HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1/route HTTP/1.1\r\nHost: x\r\n\r\n",
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: ascii(b[:40]))
def test_broken_http_is_refused_in_plain_text_and_harms_nobody(server: Server, broken):
    for port in (server.process.kv_port, server.process.engine_port):
        try:
            answer = ask(port, broken)
        except HungUp as hung:
            assert hung.left == b""
        else:
            assert 400 <= answer.status < 500, answer
            assert "<" not in answer.text
        assert Client(port)("GET", "/livez").status == 200


@pytest.mark.parametrize("endless", ["headers", "path", "value"])
def test_a_request_head_without_end_is_cut_off(server: Server, endless):
    start = {"headers": b"GET /health HTTP/1.1\r\n", "path": b"GET /", "value": b"GET /health HTTP/1.1\r\nX-A: "}[
        endless
    ]
    before = rss(server)
    sent = 0
    with Wire(server.process.kv_port, timeout=5) as wire, contextlib.suppress(OSError):
        wire.send(start)
        for n in range(640):
            wire.send(b"X-%06d: " % n + b"a" * 65500 + b"\r\n" if endless == "headers" else b"a" * 65536)
            sent += 65536
    assert sent < 20 * MIB, f"it took {sent / MIB:.0f} MiB of one head"
    assert rss(server) - before < 30 * MIB


def test_pipelined_requests_are_answered_each_and_in_order(server: Server, tenant):
    kv = server.kv(tenant)
    assert kv.put(rank_port=48002).status == 200
    root = f"/i/{tenant}"
    slot = f"{root}/route?" + "&".join(f"{k}={v}" for k, v in at().items())
    with Wire(server.process.kv_port) as wire:
        asked = []
        for n in range(50):
            asked += [
                request("GET", slot),
                request("POST", f"{root}/register_dp_rank", b'{"bootstrap_room":%d,"dp_rank":0}' % n),
                request("POST", f"{root}/query_dp_ranks", b'{"bootstrap_rooms":[%d]}' % n),
                request("GET", f"{root}/nothing"),
            ]
        wire.send(b"".join(asked))
        for n in range(50):
            assert wire.answer().json()["rank_port"] == 48002
            assert wire.answer().body == b"OK"
            assert wire.answer().json() == {str(n): 0}
            assert wire.answer().status == 404
        # In two halves that cut a request in the middle.
        twice = request("GET", slot) * 2
        wire.send(twice[:-7])
        assert wire.answer().status == 200
        assert wire.send(twice[-7:]).answer().status == 200


def test_head_has_no_body_and_the_connection_goes_on(server: Server, tenant):
    assert server.kv(tenant).put().status == 200
    with Wire(server.process.kv_port) as wire:
        assert wire.send(request("HEAD", f"/i/{tenant}/health")).answer(head_only=True).status == 200
        assert wire.send(request("HEAD", f"/i/{tenant}/route")).answer(head_only=True).status == 405
        assert wire.send(request("GET", f"/i/{tenant}/health")).answer().body == b"OK"


def test_http_1_0_is_answered_and_closed_unless_it_asks_to_stay(server: Server, tenant):
    assert server.kv(tenant).put().status == 200
    slot = f"/i/{tenant}/route?" + "&".join(f"{k}={v}" for k, v in at().items())
    for _ in range(3):
        with Wire(server.process.kv_port, timeout=20) as wire:
            assert wire.send(request("GET", slot, version="1.0")).answer().status == 200
            assert wire.is_closed()
        with Wire(server.process.kv_port, timeout=20) as wire:
            assert wire.send(request("GET", slot, headers={"Connection": "close"})).answer().status == 200
            assert wire.is_closed()
    body = json.dumps(rank()).encode()
    assert ask(server.process.kv_port, request("PUT", f"/i/{tenant}/route", body, version="1.0")).status == 200


def test_expect_100_continue_is_told_to_go_on(server: Server, tenant):
    body = json.dumps(rank()).encode()
    head = {"Content-Length": len(body), "Expect": "100-continue"}
    with Wire(server.process.kv_port) as wire:
        assert wire.send(request("PUT", f"/i/{tenant}/route", headers=head)).answer().status == 100
        assert wire.send(body).answer().status == 200
    with Wire(server.process.engine_port) as wire:
        head["Content-Length"] = ENGINE_LIMIT + 1
        assert wire.send(request("PUT", "/register_transfer_engine_info", headers=head)).answer().status == 413


def test_a_client_that_leaves_in_the_middle_leaves_no_trace(server: Server, tenant):
    whole = request("PUT", f"/i/{tenant}/route", json.dumps(rank()).encode())
    for cut in range(1, len(whole) - 1, 37):
        with Wire(server.process.kv_port) as wire:
            wire.send(whole[:cut])
    assert server.kv(tenant).topology().status == 404
    assert server.kv(tenant).put().status == 200


# --- The end: what became of the slow ones -------------------------------------------------------------------


def test_a_body_that_never_ends_is_let_go(slow):
    began, wires = slow
    time.sleep(max(0.0, began + BODY_SECONDS + 2 - time.monotonic()))
    for wire in wires:
        wire.socket.settimeout(20)
        try:
            answer = wire.answer()
        except HungUp:
            continue
        assert 400 <= answer.status < 500, answer


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_peers_that_never_finish_a_head_or_never_begin_one_are_let_go(server: Server):
    silent, half = Wire(server.process.kv_port, timeout=1), Wire(server.process.kv_port, timeout=1)
    half.send(b"GET /health HTTP/1.1\r\nHost: x")
    time.sleep(REQUEST_SECONDS + 7)
    assert half.is_closed()
    time.sleep(KEEP_ALIVE_SECONDS - REQUEST_SECONDS)
    assert silent.is_closed()
