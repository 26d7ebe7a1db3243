"""`manage.py up`: the whole control plane on this host, until Ctrl-C or SIGTERM."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections
from django.utils import timezone

from controlplane import env
from controlplane.access import links
from controlplane.checks import is_loopback
from controlplane.supervisor import embedded_redis, lockfile, ports
from controlplane.supervisor.guard import Guard
from controlplane.supervisor.processes import STOP_ORDER, recipes
from controlplane.supervisor.supervisor import StartFailed, Supervisor

READY_WITHIN_SECONDS = 60.0


class Command(BaseCommand):
    help = "Migrate, then run Redis (unless REDIS_URL is set), bootstrap, web and Celery under one supervisor."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--end-with-parent",
            action="store_true",
            help="Stop, too, when the process that started this one is gone (as `make run` wants it).",
        )

    def handle(self, *args: Any, end_with_parent: bool, **options: Any) -> None:
        parent = os.getppid() if end_with_parent else None
        began = time.monotonic()
        try:
            lock = lockfile.take(settings.PDCP_DATA_DIR)
        except lockfile.DirectoryInUse as refusal:
            raise CommandError(str(refusal), returncode=ports.EXIT_PORT_TAKEN) from None
        guard = Guard(lock=lock)
        supervisor = Supervisor(cwd=settings.BASE_DIR, guard=guard, say=self._say, parent=parent)
        supervisor.catch_signals()
        try:
            with self._redis(supervisor, guard) as redis_url:
                self._start(supervisor, redis_url)
                if not supervisor.asked_to_stop:
                    self._announce(supervisor, time.monotonic() - began)
                    supervisor.run()
                self._say("stopping …")
        except StartFailed as failure:
            for line in failure.tail:
                self.stderr.write(line)
            # 2 (a wrong setting) and 3 (a port is taken) are the child's own words, and ours as well.
            code = failure.code if failure.code in (2, 3) else 1
            raise CommandError(f"{failure}; everything was stopped.", returncode=code) from None
        except embedded_redis.NoRedis as refusal:
            raise CommandError(str(refusal), returncode=2) from None
        finally:
            supervisor.stop(STOP_ORDER)
            guard.dismiss()
        self._say("stopped.")

    @contextlib.contextmanager
    def _redis(self, supervisor: Supervisor, guard: Guard) -> Iterator[str]:
        """The URL of the Redis to use, our own one started where none is given."""
        given = env.text("REDIS_URL")
        if given:
            self._must_answer(given)
            yield given
            return
        embedded = embedded_redis.prepare(settings.PDCP_DATA_DIR)
        note: Path = settings.PDCP_DATA_DIR / "redis-url"
        # In this order: a directory can be removed only after what is in it.
        for path in (note, embedded.socket, embedded.socket.parent):
            guard.remove_afterwards(path)
        supervisor.start(embedded.recipe, env=os.environ)
        # Commands that run beside this supervisor find its Redis through this note.
        note.write_text(embedded.url + "\n", encoding="utf-8")
        yield embedded.url

    def _must_answer(self, redis_url: str) -> None:
        try:
            with redis.from_url(redis_url, socket_connect_timeout=3, socket_timeout=3) as client:
                client.ping()
        except redis.RedisError as problem:
            raise CommandError(f"REDIS_URL: no Redis answers there ({problem}).") from None

    def _start(self, supervisor: Supervisor, redis_url: str) -> None:
        call_command("migrate_all", verbosity=0)
        # The supervisor keeps no connection: those of PostgreSQL's pool have threads, and forks want none.
        connections.close_all()
        for connection in connections.all(initialized_only=True):
            if connection.vendor == "postgresql":
                connection.close_pool()  # type: ignore[attr-defined]
        its_env = {**os.environ, "REDIS_URL": redis_url, "PYTHONUNBUFFERED": "1"}
        made = recipes(
            base_dir=settings.BASE_DIR,
            log_level=settings.LOG_LEVEL,
            stop_delay_seconds=settings.PDCP_STOP_DELAY_SECONDS,
        )
        for recipe in made:
            supervisor.start(recipe, env=its_env)
        supervisor.wait_ready(seconds=READY_WITHIN_SECONDS)

    def _announce(self, supervisor: Supervisor, seconds: float) -> None:
        url = supervisor.facts("web").get("url", "")
        doors = supervisor.facts("bootstrap")
        self._say("")
        self._say(f"PD control plane is ready ({seconds:.1f} s)")
        self._say(f"  web          {url}/   admin: {url}/admin/")
        if supervisor.is_ready("bootstrap"):
            self._say(f"  KV           {doors['kv']}   (PDCP_KV_PORT)")
            self._say(f"  engine info  {doors['engine']}   (PDCP_ENGINE_INFO_PORT)")
        else:
            self._say("  bootstrap    standing by: another process on this database leads")
        self._say(f"  data         {settings.PDCP_DATA_DIR}")
        if settings.PDCP_METRICS_PORTS:
            ports = ", ".join(map(str, settings.PDCP_METRICS_PORTS))
            self._say(f"  metrics      http://{settings.PDCP_METRICS_HOST}:PORT/metrics, ports {ports}")
        self._say_sign_in_link(url)
        self._say("Ctrl-C stops everything.")
        self._say("")

    def _say_sign_in_link(self, url: str) -> None:
        # Whoever reads the output signs in as administrator: only a person at a terminal of this host may.
        if not (sys.stdout.isatty() and is_loopback(settings.PDCP_WEB_HOST)):
            self._say("  sign in      with a password; the first account: python manage.py createsuperuser")
            return
        try:
            token = links.issue(now=timezone.now())
        except links.LinkRefused as refusal:
            self._say(f"  sign in      no link: {refusal}")
        except DatabaseError as problem:
            self._say(f"  sign in      no link: the database did not take it ({problem})")
        else:
            self._say(f"  sign in      {url}/sign-in/{token}/   (once, within 15 minutes)")
        finally:
            connections.close_all()

    def _say(self, line: str) -> None:
        # The terminal may be gone (SIGHUP); stopping must go on without it.
        with contextlib.suppress(OSError):
            # In one piece, for the children write to the same terminal.
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
