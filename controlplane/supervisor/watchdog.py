"""
Ends the children of a supervisor that was killed. A script of its own, with nothing but the standard library.

The supervisor holds the other end of this script's standard input and writes one line for each change:
`+PGID` a process group began, `-PGID` it ended, `~PATH` a file or empty directory to remove. When the
supervisor is gone, however that happened, the pipe ends: what is still listed is asked to stop and, after a
while, made to.
"""

import os
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS = 5.0


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: dict[int, None] = {}
    leftovers: list[Path] = []
    for line in sys.stdin:
        sign, rest = line[0], line[1:].rstrip("\n")
        if sign == "+":
            groups[int(rest)] = None
        elif sign == "-":
            groups.pop(int(rest), None)
        elif sign == "~":
            leftovers.append(Path(rest))
    end(list(groups))
    for path in leftovers:
        remove(path)


def end(groups: list[int]) -> None:
    send(groups, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while any(send([group], 0) for group in groups) and time.monotonic() < deadline:
        time.sleep(0.05)
    send(groups, signal.SIGKILL)


def send(groups: list[int], number: int) -> int:
    """How many of the groups still exist."""
    reached = 0
    for group in groups:
        try:
            os.killpg(group, number)
            reached += 1
        except (ProcessLookupError, PermissionError):
            pass
    return reached


def remove(path: Path) -> None:
    try:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    except OSError:
        pass


if __name__ == "__main__":
    main()
