"""Which process of this host is at the other end of a connection, and which launch of an engine it belongs to (Linux, /proc).

What cannot be seen (another host, another PID namespace, somebody else's processes) is unknown, and nothing is guessed.
"""

from __future__ import annotations

import ipaddress
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from controlplane.domain.addresses import IPAddress, parse_ip
from workers.sdk.identity import VARIABLE

PROC = Path("/proc")
RUN_VARIABLE = "SGLANG_RUN_ID"
"""Set anew by each start of SGLang's engine for its own children (entrypoints/engine.py, _set_envs_and_config)."""

_CHILD = (
    b"--multiprocessing-fork",
    b"multiprocessing.spawn",
    b"multiprocessing.forkserver",
    b"multiprocessing.resource",
)
_TITLES = b"sglang::"
_DEEPEST = 32
_LISTEN = "0A"

Socket = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Process:
    """A process and no other: ids are used again, the moment of its start is not. `world` is this boot and PID namespace."""

    pid: int
    started: int
    world: str

    def __str__(self) -> str:
        return f"{self.pid}.{self.started}.{self.world}"

    @classmethod
    def parse(cls, text: str) -> Process | None:
        pid, _, rest = text.partition(".")
        started, _, world = rest.partition(".")
        return cls(int(pid), int(started), world) if pid.isdigit() and started.isdigit() else None


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """What is the same for all ranks of one start of an engine. `token`: it has one already (PD_LAUNCH_TOKEN)."""

    text: str
    token: str | None = None


def find_peer(own: Socket, peer: Socket, *, proc: Path = PROC) -> Process | None:
    """The process that holds the socket at `peer`, connected to ours at `own`. Reads every open file of this host: tens of
    milliseconds on a busy one, so not in an event loop."""
    inode = _inode(own, peer, proc)
    if inode is None:
        return None
    pid = _search.holder_of(inode, proc)
    return process_of(pid, proc=proc) if pid is not None else None


def process_of(pid: int, *, proc: Path = PROC) -> Process | None:
    """None when there is none, or it has ended and nobody has asked how yet (a zombie)."""
    stat = _stat(pid, proc)
    if stat is None or stat[0] in ("Z", "X"):
        return None
    return Process(pid, int(stat[19]), world(proc=proc))


def is_alive(process: Process, *, proc: Path = PROC) -> bool | None:
    """None: it was seen in another PID namespace, so nobody here can tell."""
    boot, _, namespace = process.world.partition(":")
    here_boot, _, here_namespace = world(proc=proc).partition(":")
    if boot != here_boot:
        return False
    if namespace != here_namespace:
        return None
    return process_of(process.pid, proc=proc) == process


def listening(*, proc: Path = PROC) -> frozenset[int]:
    """The TCP ports on which somebody of this host (of this network namespace) listens."""
    found: set[int] = set()
    for table in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for line in (proc / table).read_text().splitlines()[1:]:
                fields = line.split(maxsplit=4)
                if fields[3] == _LISTEN:
                    found.add(_port(fields[1]))
    return frozenset(found)


def launch_of(process: Process, *, proc: Path = PROC) -> LaunchIdentity:
    """By what its environment says, else by the topmost process that started it as a part of itself."""
    environment = _environment(process.pid, proc)
    token = environment.get(VARIABLE, "")
    if token and len(token) <= 128 and token.isascii() and token.isprintable():
        return LaunchIdentity(f"token:{token}", token)
    if run := environment.get(RUN_VARIABLE):
        return LaunchIdentity(f"run:{run[:200]}")
    root = process
    for _ in range(_DEEPEST):
        parent = _parent(root, proc)
        if parent is None or not _is_part(root.pid, parent.pid, proc):
            break
        root = parent
    return LaunchIdentity(f"process:{root}")


def world(*, proc: Path = PROC) -> str:
    """This boot of this host, and the PID namespace in which numbers mean what they mean here."""
    boot, namespace = "", ""
    with suppress(OSError):
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        namespace = str((proc / "self/ns/pid").readlink()).partition("[")[2].rstrip("]")
    return f"{boot}:{namespace}"


def _inode(own: Socket, peer: Socket, proc: Path) -> int | None:
    """Of the socket whose local end is `peer`: the other end of ours, if it is on this host."""
    ours, theirs = (_plain(own[0]), own[1]), (_plain(peer[0]), peer[1])
    for table in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            lines = (proc / table).read_text().splitlines()[1:]
            for line in lines:
                fields = line.split()
                # The ports first: they tell most lines apart, and cost nothing to read.
                if (_port(fields[1]), _port(fields[2])) != (theirs[1], ours[1]):
                    continue
                if (_address(fields[1]), _address(fields[2])) == (theirs[0], ours[0]):
                    return int(fields[9]) or None
    return None


def _port(end: str) -> int:
    return int(end.rpartition(":")[2], 16)


def _address(end: str) -> IPAddress | None:
    """An address as the kernel writes it: each 32 bits in the byte order of this machine.

    >>> _address("0100007F:2326"), _address("0000000000000000FFFF00000100007F:2326")
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'))
    """
    digits = bytes.fromhex(end.partition(":")[0])
    words = [digits[n : n + 4] for n in range(0, len(digits), 4)]
    packed = b"".join(int.from_bytes(word, "big").to_bytes(4, sys.byteorder) for word in words)
    return parse_ip(str(ipaddress.ip_address(packed)))


def _plain(text: str) -> IPAddress | None:
    return parse_ip(text.partition("%")[0])


def _is_part(pid: int, parent: int, proc: Path) -> bool:
    """Whether `parent` started `pid` as a part of itself: by multiprocessing, as SGLang's own, or by a bare fork."""
    own = _command(pid, proc)
    if not own:
        return False
    return own.startswith(_TITLES) or any(mark in own for mark in _CHILD) or own == _command(parent, proc)


def _parent(process: Process, proc: Path) -> Process | None:
    stat = _stat(process.pid, proc)
    return process_of(int(stat[1]), proc=proc) if stat is not None and int(stat[1]) > 1 else None


def _stat(pid: int, proc: Path) -> list[str] | None:
    """The fields behind the name, which may hold anything: state, parent, …, and the start at [19]."""
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 else None


def _command(pid: int, proc: Path) -> bytes:
    with suppress(OSError):
        return (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0")
    return b""


def _environment(pid: int, proc: Path) -> dict[str, str]:
    """As it was when the process was started; empty when it may not be read."""
    with suppress(OSError):
        pairs = (proc / str(pid) / "environ").read_bytes().split(b"\0")
        return {
            name.decode("latin-1"): value.decode("latin-1") for name, _, value in (p.partition(b"=") for p in pairs)
        }
    return {}


class _Search:
    """One at a time, each for all who wait: the ranks of an engine register together."""

    def __init__(self) -> None:
        self._turn, self._guard = threading.Lock(), threading.Lock()
        self._wanted: set[int] = set()
        self._found: dict[int, int | None] = {}

    def holder_of(self, inode: int, proc: Path) -> int | None:
        with self._guard:
            self._wanted.add(inode)
        with self._turn:
            with self._guard:
                if inode in self._found:
                    return self._found.pop(inode)
                wanted, self._wanted = self._wanted | {inode}, set()
            found = _holders(wanted, str(proc))
            with self._guard:
                self._found |= {other: found.get(other) for other in wanted if other != inode}
            return found.get(inode)


_search = _Search()


def _holders(inodes: Iterable[int], proc: str) -> dict[int, int]:
    """Which process has which socket open. Plain strings: this reads every open file of the host."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, int] = {}
    for pid in _listed(proc):
        if pid.isdigit():
            directory = f"{proc}/{pid}/fd"
            for name in _listed(directory):
                try:
                    inode = wanted.get(os.readlink(f"{directory}/{name}"))  # noqa: PTH115
                except OSError:
                    continue
                if inode is not None and found.setdefault(inode, int(pid)) and len(found) == len(wanted):
                    return found
    return found


def _listed(directory: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(directory)  # noqa: PTH208
    return []
