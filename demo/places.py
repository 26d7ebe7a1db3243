"""The ports and the directory of one demo: free, or it is said who has them."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from controlplane.supervisor import lockfile, ports

from .plan import PORTS

HOST = "127.0.0.1"
LOWEST, HIGHEST = 10_000, 14_900
"""Below the ranges from which systems take ports for outgoing connections, and Mooncake its own."""
TRIES = 50


class Taken(Exception):
    """A sentence: what is taken, by whom, and what to do."""


def choose_ports(first: int) -> dict[str, int]:
    """A port for each of PORTS: in a row from `first` on, or (0) any that are free now. Raises Taken."""
    if first:
        wanted = {name: first + number for number, name in enumerate(PORTS)}
        for port in wanted.values():
            _check_free(port)
        return wanted
    for _ in range(TRIES):
        found = random.randrange(LOWEST, HIGHEST - len(PORTS))
        try:
            return choose_ports(found)
        except Taken:
            continue
    raise Taken(f"no {len(PORTS)} free ports in a row were found; name the first of them with --ports")


def _check_free(port: int) -> None:
    try:
        ports.listen(HOST, port, variable="").close()
    except ports.PortTaken:
        holder = ports.holder_of(port) or "another process"
        raise Taken(
            f"port {port} is taken by {holder}; stop that, or choose others: make demo PORTS={port + 100} (0: any free ones)"
        ) from None


def choose_directory(wanted: Path | None) -> tuple[Path, int]:
    """The directory of this demo, and the descriptor that locks it. Raises Taken."""
    if wanted is None:
        directory = Path(tempfile.mkdtemp(prefix="pd-demo-"))
    else:
        directory = wanted.absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as problem:
            raise Taken(f"--data {wanted} cannot be made: {problem.strerror}") from None
    try:
        return directory, lockfile.take(directory)
    except lockfile.DirectoryInUse:
        raise Taken(f"another demo runs in {directory}; stop it, or name another directory with --data") from None
