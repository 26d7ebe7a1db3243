"""Which database holds what: the three aliases, and the router that keeps rooms apart from facts."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from django.apps import apps
from django.db.models import Model

from controlplane.env import BadSetting

FACTS, READER, TRAFFIC = "default", "reader", "traffic"
BUSY_TIMEOUT_SECONDS = 3
READER_IDLE = "-c idle_in_transaction_session_timeout=30s"
"""A page thinks about thousands of ranks between two questions of one snapshot, and nobody waits for one that only reads:
the limit for those who write is no limit for it."""

POSTGRES_LIMITS = "-c lock_timeout=2s -c idle_in_transaction_session_timeout=2s -c statement_timeout=3s"


def from_url(url: str, *, data_dir: Path, synchronous: str) -> dict[str, dict[str, Any]]:
    """DATABASES for DATABASE_URL; without one, two SQLite files in the data directory."""
    if not url:
        return _sqlite(data_dir / "controlplane.sqlite3", data_dir / "traffic.sqlite3", synchronous)
    try:
        parsed = dj_database_url.parse(url)
    except (ValueError, KeyError):
        # The URL holds a password: never repeat it.
        raise BadSetting("DATABASE_URL", "is not a URL such as postgres://user:secret@host:5432/name") from None
    engine = parsed["ENGINE"]
    if engine == "django.db.backends.sqlite3":
        facts = Path(parsed["NAME"])
        if str(facts) in (":memory:", ".", ""):
            raise BadSetting("DATABASE_URL", "SQLite needs a file, for several processes share it")
        return _sqlite(facts, facts.with_name(f"{facts.stem}-traffic{facts.suffix}"), synchronous)
    if engine == "django.db.backends.postgresql":
        return _postgres(dict(parsed))
    raise BadSetting("DATABASE_URL", f"{urlsplit(url).scheme} is not supported; use postgres:// or sqlite:///")


def _sqlite(facts: Path, traffic: Path, synchronous: str) -> dict[str, dict[str, Any]]:
    def writer(file: Path) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(file),
            "OPTIONS": {
                "timeout": BUSY_TIMEOUT_SECONDS,
                "transaction_mode": "IMMEDIATE",
                "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}",
            },
        }

    # With IMMEDIATE even a transaction that only reads takes the write lock: readers get their own alias.
    reader = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(facts),
        "OPTIONS": {
            "timeout": BUSY_TIMEOUT_SECONDS,
            "transaction_mode": "DEFERRED",
            "init_command": "PRAGMA query_only=ON",
        },
        "TEST": {"MIRROR": FACTS},
    }
    return {FACTS: writer(facts), READER: reader, TRAFFIC: writer(traffic)}


def _postgres(parsed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    try:
        from psycopg import IsolationLevel
    except ImportError:
        raise BadSetting(
            "DATABASE_URL", "PostgreSQL needs its driver: pip install 'pd-control-plane[postgres]'"
        ) from None
    given = dict(parsed.get("OPTIONS", {}))

    def alias(extra: str = "", **more: Any) -> dict[str, Any]:
        options = {**given, "pool": {"min_size": 1, "max_size": 8, "timeout": 3}, **more}
        options["options"] = " ".join(filter(None, [POSTGRES_LIMITS, extra, given.get("options", "")]))
        return {**parsed, "CONN_MAX_AGE": 0, "OPTIONS": options}

    reader = alias(f"-c default_transaction_read_only=on {READER_IDLE}", isolation_level=IsolationLevel.REPEATABLE_READ)
    reader["TEST"] = {"MIRROR": FACTS}
    traffic = alias()
    traffic["TEST"] = {"MIRROR": FACTS}
    return {FACTS: alias(), READER: reader, TRAFFIC: traffic}


def writers() -> list[str]:
    """The aliases that have tables of their own, in the order to migrate them."""
    from django.db import connections

    if connections[FACTS].vendor == "postgresql":
        return [FACTS]
    return [FACTS, TRAFFIC]


class TrafficRouter:
    """Models with `traffic = True` live in the traffic database; `reader` is only ever asked for by name."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        return TRAFFIC if _is_traffic(model) else FACTS

    db_for_write = db_for_read

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool:
        return _is_traffic(type(one)) == _is_traffic(type(other))

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool:
        # On PostgreSQL `traffic` is another name for the same database, migrated once, through `default`.
        here = writers()
        if db not in here:
            return False
        if len(here) == 1:
            return True
        # Migrations carry historical models, which lose class attributes: ask today's model of that name.
        wanted = hints.get("traffic", _is_traffic_name(app_label, model_name))
        return bool(wanted) == (db == TRAFFIC)


def _is_traffic(model: type[Model]) -> bool:
    return bool(getattr(model, "traffic", False))


def _is_traffic_name(app_label: str, model_name: str | None) -> bool:
    if model_name is None:
        return False
    try:
        return _is_traffic(apps.get_model(app_label, model_name))
    except LookupError:
        return False
