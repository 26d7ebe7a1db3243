"""The process that has imported everything once and is forked for each process under test (see forking.py).

A child is as one that was executed: its own environment, files, signals and settings; only the imports are done already.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
# What the commands import only when they run.
LATER = (
    "channels_redis.pubsub",
    "controlplane.asgi",
    "controlplane.bootstrap.process",
    "controlplane.urls",
    "controlplane.web.server",
    "django.core.cache.backends.locmem",
    "django.core.cache.backends.redis",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "psycopg_pool",
    "uvloop",
)


def main() -> None:
    door = socket.socket(fileno=int(sys.argv[1]))
    _import_everything()
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, f"a fork takes one thread along, and there are {threading.enumerate()}"
    door.send(b"ready")
    _live(*_attend(door))


def _import_everything() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
    import django

    django.setup()
    from django.core import management

    from controlplane.management import commands

    for name in LATER:
        with contextlib.suppress(ImportError):  # some are for PostgreSQL, which a laptop may lack
            importlib.import_module(name)
    for module in pkgutil.iter_modules(commands.__path__):
        management.load_command_class("controlplane", module.name)
    for command in ("check", "createsuperuser", "shell"):
        management.load_command_class(management.get_commands()[command], command)
    # It has to find the first environment, so it comes before that is replaced.
    _take_name(f"{sys.executable} -m tests.support.zygote")


def _take_name(name: str) -> None:
    """What others find as this process's command line, where that can be done."""
    with contextlib.suppress(ImportError):
        from setproctitle import setproctitle

        setproctitle(name)


def _attend(door: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request, and say how each child ended. Returns in a child: what it was asked to be, and its files."""
    # Ctrl-C is for the tests, which close the door. What is blocked also waits for a child that has only just begun.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wakes = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(wakes)
    ends: dict[int, int] = {}
    parent = os.getpid()
    while True:
        ready = select.select([door, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _reap(ends)
        if door not in ready:
            continue
        try:
            message, files, *_ = socket.recv_fds(door, 2**20, 4)
        except ConnectionResetError:
            # The tests ended before they had read what was told last.
            os._exit(0)
        if not message:
            os._exit(0)
        asked = json.loads(message)
        if (child := os.fork()) == 0:
            # Of a signal that came between: nobody is told by the parent's wake-up.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, asked["dies_by"])
            if os.getppid() != parent:
                os._exit(1)
            door.detach()
            return asked, files
        *given, end = files
        ends[child] = end
        pidfd = os.pidfd_open(child)
        socket.send_fds(door, [str(child).encode()], [pidfd])
        for number in (*given, pidfd):
            os.close(number)


def _reap(ends: dict[int, int]) -> None:
    for child, end in list(ends.items()):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):
                os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(ends.pop(child))


def _live(asked: dict[str, Any], files: list[int]) -> None:
    """Be what was asked for, to the end of the process."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, max(int(open_file.name) for open_file in Path("/proc/self/fd").iterdir()) + 1)
    os.environ.clear()
    os.environ.update(asked["env"])
    # What each of our entry points does when it is imported, which is done already.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    os.chdir(asked["cwd"])
    _forget_settings()
    words: list[str] = asked["words"]
    _take_name(" ".join([sys.executable, *words]))
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def _forget_settings() -> None:
    """Settings are read from the environment anew; what Django made of those it was loaded with is made anew too."""
    from django.conf import empty, settings
    from django.core.cache import caches
    from django.db import connections

    for handler in (connections, caches):
        for alias in handler.settings:
            with contextlib.suppress(AttributeError):
                del handler[alias]
        handler._settings = None
        del handler.settings
    settings._wrapped = empty
    del sys.modules["controlplane.settings"]


if __name__ == "__main__":
    main()
