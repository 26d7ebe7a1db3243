"""Brings the watched file of observed instances into the fleet when it changes, and once when the worker starts."""

import threading
from pathlib import Path

import structlog
from celery import shared_task
from django.conf import settings

from controlplane.commands import observe_file
from controlplane.domain.errors import Refused

log = structlog.get_logger(__name__)

_one_at_a_time = threading.Lock()
# What was brought in last, and what was wrong with it: an operator's later change is not undone each round.
_last: list[str] = []
# Read once, and perhaps not written to its end.
_unended: list[str] = []


@shared_task
def read_observe_file() -> None:
    path = settings.PDCP_OBSERVE_FILE
    if path and _one_at_a_time.acquire(blocking=False):
        try:
            _read(Path(path))
        finally:
            _one_at_a_time.release()


def _read(path: Path) -> None:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(observe_file.MAX_BYTES + 1)
    except (OSError, UnicodeError) as problem:
        text = f"\0{type(problem).__name__}"
    if _last == [text] or not _is_whole(text):
        return
    if text.startswith("\0"):
        log.warning("observe file cannot be read", path=str(path), problem=text[1:])
    else:
        try:
            done = observe_file.apply(observe_file.read(text))
        except Refused as refused:
            log.warning("observe file was not used", path=str(path), why=refused.sentence)
        else:
            for sentence in done.changed:
                log.info("observe file", done=sentence)
            for sentence in done.refused:
                log.warning("observe file", refused=sentence)
    _last[:] = [text]


def _is_whole(text: str) -> bool:
    """A last line that nothing ends counts when it is the same the next time: its URL may be half of one."""
    whole = text.endswith("\n") or _unended == [text]
    _unended[:] = [text]
    return whole or not observe_file.is_lines(text)
