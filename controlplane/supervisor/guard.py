"""The supervisor's side of the watchdog (watchdog.py): tells it what would have to be ended."""

import contextlib
import subprocess
import sys
from pathlib import Path

from controlplane.supervisor import watchdog


class Guard:
    def __init__(self, *, lock: int) -> None:
        # It inherits the lock: the directory stays locked until the last child of a killed supervisor ended.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[lock],
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def began(self, group: int) -> None:
        self._tell(f"+{group}")

    def ended(self, group: int) -> None:
        self._tell(f"-{group}")

    def remove_afterwards(self, path: Path) -> None:
        self._tell(f"~{path}")

    def dismiss(self) -> None:
        """The supervisor ends in good order: the watchdog tidies up and goes."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # somebody killed it; on Linux the children still die with their parent
