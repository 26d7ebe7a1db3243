"""`/metrics` of a web process and `/metrics/fleet`: on an address of their own, and on the web port for who may read."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterable, Iterator

import structlog
from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.access.headers import token_in
from controlplane.access.identity import who_of_request
from controlplane.access.roles import READ
from controlplane.ledger.hub import hubs
from controlplane.ledger.tail import head
from controlplane.metrics import common, of_fleet, of_web, web
from controlplane.metrics.catalogue import declared
from controlplane.metrics.exposition import render
from controlplane.metrics.listener import Page
from controlplane.metrics.metric import Sample
from controlplane.metrics.process import own
from controlplane.queries import figures, own_figures

log = structlog.get_logger(__name__)


def process() -> Iterator[Sample]:
    """This process alone."""
    yield from own("web")
    yield from web.samples()
    yield Sample(of_web.SOCKET_LIMIT, settings.PDCP_SOCKET_LIMIT)
    yield from _of_database(_behind)


def fleet() -> Iterator[Sample]:
    """The same from every web process."""
    now = time.time()
    yield from _of_database(
        lambda: figures.fleet(now=now),
        lambda: own_figures.tasks(now=now),
        lambda: own_figures.told(now=now),
        own_figures.trimmed,
    )
    yield from own_figures.broker()


def _behind() -> Iterator[Sample]:
    # Before the head: what is committed in between is nobody's delay.
    read = [found.revision for hub in hubs() if (found := hub.head) is not None]
    revision = head().revision
    if read:
        yield Sample(common.BEHIND, max(0, revision - min(read)), ("stream",))


def _of_database(*parts: Callable[[], Iterable[Sample]]) -> Iterator[Sample]:
    """Each part whole or not at all: what a database that is away would have said is missing, and that is told."""
    readable = True
    for part in parts:
        try:
            yield from list(part())
        except Error as problem:
            log.warning("figures_not_read", problem=str(problem)[:300])
            readable = False
    yield Sample(common.READABLE, int(readable))


PAGES = {
    "/metrics": Page(process, declared(common, of_web)),
    # Of the process that happens to answer nothing is told there.
    "/metrics/fleet": Page(fleet, (common.READABLE, *declared(of_fleet)), process=False),
}


@never_cache
@require_safe
def metrics(request: HttpRequest, path: str) -> HttpResponse:
    if not _may(request):
        sentence = "the metrics want a token that may read, or PDCP_METRICS_TOKEN, as a bearer token\n"
        return HttpResponse(sentence, status=401, content_type="text/plain", headers={"WWW-Authenticate": "Bearer"})
    page = PAGES[path]
    content_type, body = render(
        page.collect, request.headers.get("Accept", ""), declared=page.declared, process=page.process
    )
    return HttpResponse(body, content_type=content_type)


def _may(request: HttpRequest) -> bool:
    given = token_in(None, request.headers.get("Authorization"))
    wanted = settings.PDCP_METRICS_TOKEN
    if wanted and given and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
        return True
    return who_of_request(request).may(READ)
