"""The token of a worker, as text or from a file: a file is read again when it changed, so a rotation needs no restart."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from .errors import BadAddress

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
LONGEST = 500


class TokenFile:
    """`current()` is what the file holds. While it holds none (it is being written, it is away), the last one counts.

    Raises OSError, and BadAddress for what is no token, when it is made. Any number of threads may share it.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._looked = clock()
        self._seen = self._state()
        self._token = _read(path)
        self._trouble = ""

    def current(self) -> str:
        now = self._clock()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            try:
                if (state := self._state()) != self._seen:
                    self._token, self._seen = _read(self._path), state
                    log.info("the token in %s was changed, and is used from now on", self._path)
                self._trouble = ""
            except (OSError, BadAddress) as problem:
                self._say(str(problem))
        return self._token

    def _state(self) -> tuple[int, int, int]:
        """Of whatever the name leads to: secrets are often changed by turning a link."""
        found = os.stat(self._path)  # noqa: PTH116
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("the token in %s cannot be read anew, and the last one is used on: %s", self._path, trouble)


Token = str | TokenFile


def checked(token: str) -> str:
    """Raises BadAddress."""
    if not (token.isascii() and token.isprintable() and 0 < len(token) <= LONGEST):
        raise BadAddress("the token is not one: it is printable ASCII, and not empty")
    return token


def _read(path: Path) -> str:
    try:
        return checked(path.read_text(encoding="utf-8").strip())
    except UnicodeDecodeError:
        raise BadAddress(f"{path} holds no token: it is no text") from None
