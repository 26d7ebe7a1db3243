"""The address of the metrics: a few scrapes at a time, with the token if there is one, whoever else knocks."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest

from controlplane.metrics import listener as module
from controlplane.metrics.listener import AT_ONCE, Listener, Page
from controlplane.metrics.metric import Sample, gauge
from tests.cases.ranks import eventually
from tests.support.machine import slowness

from .scraping import Scrape

THERE = gauge("pdcp_there", "There", "name")
Open = Callable[..., str]


@pytest.fixture
def listening() -> Iterator[Open]:
    """`listening(collect, token=…)` -> the URL in front of its paths."""
    opened: list[Listener] = []

    def listen(collect=lambda: [Sample(THERE, 1, ("a",))], **more: object) -> str:
        ours = socket.create_server(("127.0.0.1", 0))
        pages = {"/metrics": Page(collect, (THERE,)), "/metrics/fleet": Page(collect, (THERE,), process=False)}
        opened.append(Listener(ours, pages, **more))  # type: ignore[arg-type]
        opened[-1].start()
        return f"http://127.0.0.1:{ours.getsockname()[1]}"

    yield listen
    for one in opened:
        one.stop()


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, timeout=30)


def test_each_path_has_its_own_page_and_others_are_told_which_there_are(listening: Open):
    url = listening()
    assert Scrape.of(f"{url}/metrics").value("pdcp_there", name="a") == 1
    assert "process_cpu_seconds" in get(f"{url}/metrics").text
    assert "process_cpu_seconds" not in get(f"{url}/metrics/fleet?x=1").text
    assert get(f"{url}/").status_code == 404 and "/metrics and /metrics/fleet" in get(f"{url}/").text
    assert httpx.post(f"{url}/metrics", timeout=30).status_code == 501
    assert httpx.head(f"{url}/metrics", timeout=30).headers["content-type"].startswith("text/plain")


def test_with_a_token_nobody_reads_without_it(listening: Open):
    url = listening(token="s3cret")
    for wrong in (
        {},
        {"authorization": "Bearer s3cre"},
        {"authorization": "Basic s3cret"},
        {"authorization": "s3cret"},
    ):
        refused = get(f"{url}/metrics", **wrong)
        assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
        assert "pdcp_there" not in refused.text
    assert get(f"{url}/metrics", authorization="bearer s3cret").status_code == 200


def test_a_long_answer_is_packed_for_who_takes_that(listening: Open):
    url = listening(lambda: [Sample(THERE, n, (f"name-{n}",)) for n in range(500)])
    with httpx.stream("GET", f"{url}/metrics", headers={"accept-encoding": "gzip"}, timeout=30) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert b'pdcp_there{name="name-499"} 499' in gzip.decompress(raw)
    assert "content-encoding" not in get(f"{url}/metrics", **{"accept-encoding": "identity"}).headers


def test_a_collector_that_fails_is_a_500_and_the_next_scrape_is_answered(listening: Open):
    failing = [True]

    def collect() -> Iterator[Sample]:
        yield Sample(THERE, 1, ("a",))
        if failing:
            raise RuntimeError(failing.pop())

    url = listening(collect)
    broken = get(f"{url}/metrics")
    assert broken.status_code == 500 and "pdcp_there" not in broken.text
    assert get(f"{url}/metrics").status_code == 200


def test_what_a_scrape_opened_is_given_back_in_its_own_thread(listening: Open):
    threads: list[str] = []

    def here() -> list[Sample]:
        threads.append(threading.current_thread().name)
        return []

    url = listening(here, done=here)
    get(f"{url}/metrics")
    collected, gave_back = threads
    assert collected == gave_back != threading.current_thread().name


def test_whoever_holds_all_places_is_cut_off_and_then_scrapes_are_answered_again(listening: Open, monkeypatch):
    monkeypatch.setattr(module, "WHOLE_SECONDS", 0.3 * slowness())
    url = listening()
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    idle = [socket.create_connection(address) for _ in range(AT_ONCE)]
    for one in idle:
        one.sendall(b"GET /metrics HTTP/1.1\r\n")
    for one in idle:
        one.settimeout(30)
        with suppress(ConnectionResetError):
            assert one.recv(100) == b"", "it never ended its request"
        one.close()
    # The threads that served them end a moment later.
    eventually(lambda: _answered(url), within=30)


def _answered(url: str) -> bool:
    with suppress(httpx.TransportError):
        return get(f"{url}/metrics").status_code == 200
    return False


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"\x00" * 70_000]
)
def test_noise_is_no_scrape_and_does_no_harm(listening: Open, sent: bytes):
    url = listening()
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=30) as noise:
        noise.sendall(sent)
        noise.shutdown(socket.SHUT_WR)
        heard = b""
        with suppress(ConnectionResetError):
            while piece := noise.recv(4096):
                heard += piece
    assert b"pdcp_there" not in heard
    assert get(f"{url}/metrics").status_code == 200
