"""/livez says that the process answers; /readyz says whether it can do its work, check by check."""

import asyncio
from collections.abc import Callable

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache import cache
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from controlplane import databases

CHECK_TIMEOUT_SECONDS = 4.0

shutting_down = asyncio.Event()
_migrated = False


class NotReady(Exception):
    """Why a check failed, as a sentence without addresses or secrets."""


@never_cache
async def livez(request: HttpRequest) -> HttpResponse:
    return HttpResponse("OK\n", content_type="text/plain")


@never_cache
async def readyz(request: HttpRequest) -> JsonResponse:
    names = list(CHECKS)
    results = await asyncio.gather(*(_run(CHECKS[name]) for name in names))
    checks = dict(zip(names, results, strict=True))
    checks["process"] = "shutting down" if shutting_down.is_set() else "ok"
    ready = all(result == "ok" for result in checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": checks}
    return JsonResponse(body, status=200 if ready else 503)


async def _run(check: Callable[[], None]) -> str:
    try:
        await asyncio.wait_for(sync_to_async(check, thread_sensitive=False)(), CHECK_TIMEOUT_SECONDS)
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_SECONDS:.0f} s"
    except NotReady as reason:
        return str(reason)
    except Exception as problem:
        # Messages of drivers contain hosts and users; this page is open to everybody.
        return f"failed ({type(problem).__name__})"
    return "ok"


def _database() -> None:
    for alias in (*databases.writers(), databases.READER):
        connection = connections[alias]
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        finally:
            # This runs on a pool thread that no request owns: nobody else would close its connection.
            connection.close()


def _migrations() -> None:
    global _migrated
    # Nothing migrates backwards under a running process; once seen, it need not be asked again.
    if _migrated:
        return
    for alias in databases.writers():
        connection = connections[alias]
        try:
            executor = MigrationExecutor(connection)
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                raise NotReady("migrations are missing: run manage.py migrate_all")
        finally:
            connection.close()
    _migrated = True


def _redis() -> None:
    if not settings.REDIS_URL:
        raise NotReady("REDIS_URL is not set")
    cache.get("readyz")


CHECKS: dict[str, Callable[[], None]] = {"database": _database, "migrations": _migrations, "redis": _redis}
