"""A small HTTP server for scrapes, on an address of its own: a few at a time, each bounded, in threads of its own."""

from __future__ import annotations

import gzip
import hmac
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import structlog

from .exposition import Answer, render
from .metric import Collect, Metric

log = structlog.get_logger()

AT_ONCE = 4
"""Scrapes that are answered at the same time; more than two Prometheus servers seldom look."""

PATIENCE_SECONDS = 5.0
"""For a client that sends, or takes, nothing."""

WHOLE_SECONDS = 20.0
"""For one connection, however slowly it drips."""

ZIPPED_FROM = 1024


class Page(NamedTuple):
    """What one path answers with."""

    collect: Collect
    declared: tuple[Metric, ...]
    process: bool = True


class Listener(ThreadingHTTPServer):
    """Serves `pages` by path on a socket that listens already. `token`: what each request must bear, if anything.

    `done` is called in the thread of a scrape when it is over: to give back what it opened.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        listening: socket.socket,
        pages: Mapping[str, Page],
        *,
        token: str = "",
        done: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.pages = dict(pages)
        self.done = done
        self._token = token.encode()
        self._places = threading.Semaphore(AT_ONCE)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.2,), name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def may(self, authorization: str | None) -> bool:
        scheme, _, given = (authorization or "").partition(" ")
        return not self._token or (
            scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        )

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            # Whoever holds all places at once is no Prometheus; it is told nothing, for that could block too.
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away in the middle is nobody's fault.
        log.debug("scrape_broke_off", source=str(client_address[0]))


class _Handler(BaseHTTPRequestHandler):
    server: Listener
    server_version, sys_version = "pd-control-plane", ""
    timeout = PATIENCE_SECONDS

    def setup(self) -> None:
        super().setup()
        # Each read may take as long as `timeout`; all of them together may not take for ever.
        self._end = threading.Timer(WHOLE_SECONDS, self._cut)
        self._end.daemon = True
        self._end.start()

    def finish(self) -> None:
        self._end.cancel()
        super().finish()

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            return self._answer(
                404, "text/plain; charset=utf-8", f"there is {' and '.join(self.server.pages)} here\n".encode()
            )
        if not self.server.may(self.headers.get("Authorization")):
            return self._answer(
                401, "text/plain; charset=utf-8", b"the metrics want PDCP_METRICS_TOKEN as a bearer token\n"
            )
        try:
            content_type, body = self._render(page)
        except Exception:
            log.exception("scrape_failed", path=self.path[:100])
            return self._answer(500, "text/plain; charset=utf-8", b"the metrics could not be collected; see the log\n")
        self._answer(200, content_type, body)
        return None

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("scraped", source=str(self.client_address[0]), line=(format % args)[:200])

    def _render(self, page: Page) -> Answer:
        began = time.monotonic()
        try:
            answer = render(page.collect, self.headers.get("Accept", ""), declared=page.declared, process=page.process)
        finally:
            self.server.done()
        log.debug("scrape_took", seconds=round(time.monotonic() - began, 4), bytes=len(answer[1]))
        return answer

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        zipped = len(body) >= ZIPPED_FROM and "gzip" in self.headers.get("Accept-Encoding", "")
        if zipped:
            body = gzip.compress(body, compresslevel=1)
        self.send_response_only(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
