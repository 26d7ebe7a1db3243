"""What a relay is told on its command line, checked at once: each problem is a sentence that names the option."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.domain.errors import Refused
from workers.sdk.errors import WorkerError
from workers.sdk.places import KV_PORT
from workers.sdk.servers import ControlPlane
from workers.sdk.tokens import TokenFile

from .networks import Network, read_networks

EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Settings:
    """`listen`: addresses to listen on; `networks` None: those of this host. Times in seconds."""

    control_plane: ControlPlane
    instance: str
    data: Path
    listen: tuple[str, ...] = EVERYWHERE
    port: int = KV_PORT
    networks: tuple[Network, ...] | None = None
    lease: float = 15.0
    room_seconds: float = 360.0
    most_rooms: int = 200_000
    name: str = ""

    @property
    def worker(self) -> str:
        """The name under which it beats: the same over restarts, and it says where the port is."""
        return self.name or f"relay/{socket.gethostname()[:64]}:{self.port}"


def read(words: Sequence[str] | None = None) -> Settings:
    """Exits with a usage sentence (2) when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m workers.agent relay", description=__doc__)
    parser.add_argument("--kv", required=True, metavar="HOST:PORT", help="the control plane's KV bootstrap server")
    parser.add_argument("--instance", required=True, help="the name there of the engine on this host")
    parser.add_argument("--data", required=True, type=Path, help="a directory of its own, on a disk that outlives it")
    parser.add_argument("--port", type=int, default=KV_PORT, help="the engine's --disaggregation-bootstrap-port")
    parser.add_argument("--listen", action="append", metavar="ADDRESS", help="(default: all, IPv4 and IPv6)")
    parser.add_argument("--networks", metavar="CIDR,…", help="who may register (default: this host's networks)")
    parser.add_argument("--token-file", type=Path, help="holds the token with the verbs register and resolve")
    parser.add_argument("--lease", type=float, default=15.0, help="seconds after which a silent relay is called late")
    parser.add_argument("--room-seconds", type=float, default=360.0, help="how long a bound room is answered for")
    parser.add_argument("--most-rooms", type=int, default=200_000, help="rooms held; the oldest go first")
    parser.add_argument("--name", default="", help="of this relay (default: relay/HOST:PORT)")
    given = parser.parse_args(words)
    try:
        return checked(given)
    except (Refused, WorkerError) as problem:
        parser.error(problem.sentence)
    except OSError as problem:
        parser.error(f"--token-file cannot be read: {problem}")


def checked(given: argparse.Namespace) -> Settings:
    """Raises Refused, WorkerError, OSError."""
    token = TokenFile(given.token_file) if given.token_file is not None else None
    plane = ControlPlane.at(given.kv, instance=given.instance, token=token)
    for option, value, least, most in (
        ("--port", given.port, 0, 65535),
        ("--lease", given.lease, 1, 600),
        ("--room-seconds", given.room_seconds, 1, 86_400),
        ("--most-rooms", given.most_rooms, 1, 2_000_000),
    ):
        if not least <= value <= most:
            raise Refused(f"{option} must be between {least} and {most}")
    if len(given.name) > 100 or not given.name.isprintable():
        raise Refused("--name must have at most 100 printable characters")
    assert plane.instance is not None
    return Settings(
        plane,
        plane.instance,
        given.data,
        tuple(given.listen or EVERYWHERE),
        given.port,
        read_networks(given.networks) if given.networks is not None else None,
        given.lease,
        given.room_seconds,
        given.most_rooms,
        given.name,
    )
