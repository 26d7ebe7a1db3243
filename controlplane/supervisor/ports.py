"""Open a listening port, or say which one is taken, by whom, and what to change."""

import errno
import re
import socket
from pathlib import Path

EXIT_PORT_TAKEN = 3
LISTENING = "0A"


class PortTaken(Exception):
    """A sentence for the operator."""


def listen(host: str, port: int, *, variable: str, backlog: int = 2048) -> socket.socket:
    """A listening TCP socket on host:port; port 0 takes a free one."""
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as problem:
        raise PortTaken(_sentence(host, port, variable, problem)) from None
    family, _, _, _, address = known[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
    except OSError as problem:
        listener.close()
        raise PortTaken(_sentence(host, port, variable, problem)) from None
    return listener


def _sentence(host: str, port: int, variable: str, problem: OSError) -> str:
    if problem.errno != errno.EADDRINUSE:
        return f"port {port} on {host} cannot be opened ({problem.strerror}); check {variable} and its address."
    holder = holder_of(port) or "another process"
    return f"port {port} on {host} is taken by {holder}; stop that, or set {variable} to another port."


def holder_of(port: int) -> str | None:
    """Who listens on a port, as `name (pid N)`, where the system tells (Linux, same user or root)."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _holds_one_of(entry, inodes):
            return f"{_name(entry)} (pid {entry.name})"
    return "a process of another user or container"


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(columns[9])
    return inodes


def _holds_one_of(process: Path, inodes: set[str]) -> bool:
    try:
        for descriptor in (process / "fd").iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink()))
            if found and found[1] in inodes:
                return True
    except OSError:
        pass  # it ended meanwhile, or belongs to somebody else
    return False


def _name(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().rstrip(b"\0").decode("utf-8", "replace").split("\0")
    except OSError:
        return "a process"
    return " ".join([Path(words[0]).name, *words[1:]])[:120] or "a process"
