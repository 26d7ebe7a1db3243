"""This process as the rounds that it runs name it, and whether another one on this host is gone."""

from __future__ import annotations

import os
import secrets
import socket
from functools import cache
from pathlib import Path

from controlplane.commands.rounds import Runner


@cache
def _host() -> str:
    """Where process numbers mean the same as here: a host since its last start, and in it a container."""
    parts = [socket.gethostname()]
    for path, read in (("/proc/sys/kernel/random/boot_id", Path.read_text), ("/proc/self/ns/pid", Path.readlink)):
        try:
            parts.append(str(read(Path(path))).strip()[-12:])
        except OSError:
            parts.append("-")
    return "/".join(parts)


@cache
def _runner(pid: int) -> Runner:
    return Runner(f"{socket.gethostname()} pid {pid}", f"{_host()} {pid} {secrets.token_hex(4)}")


def this_process() -> Runner:
    return _runner(os.getpid())


def is_gone(holder: str) -> bool:
    """Whether the process is known not to run any more: it ran here, and no process has its number, or we do."""
    host, _, rest = holder.partition(" ")
    pid, _, _ = rest.partition(" ")
    if host != _host() or not pid.isdigit():
        return False
    if int(pid) == os.getpid():
        # In a container that starts anew everybody gets the numbers that they had before.
        return holder != this_process().holder
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
