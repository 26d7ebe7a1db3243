"""Sends what waits for the webhook: the oldest first, one after the other, each until it is taken.

A message is claimed before it is sent, so two who send at once do not send it twice; whoever dies on the way leaves it to
be sent again, with the same id. The receiver that does not take one is asked less and less often, and the others wait.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import time
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db.models import F

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.models import AlarmNotice
from controlplane.probes import outgoing

from . import alarm_notices

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 5.0
CLAIMED_SECONDS = 15.0
"""A message that was claimed so long ago and did not come back is sent again."""

BUDGET_SECONDS = 8.0
LONGEST_PAUSE_SECONDS = 300.0
NOT_THIS_ONE = frozenset({400, 413, 414, 415, 422})
"""Answers that mean this message, not the receiver: after TRIES of them the next one has its turn."""

TRIES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of sending one. `status` None: no answer came. `again_after`: what the receiver asked for, in seconds."""

    status: int | None
    problem: str = ""
    took: float = 0.0
    again_after: float | None = None

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def deliver(now: float | None = None) -> int:
    """Send what is due; how many were taken. Ends after BUDGET_SECONDS, or with the first that was not taken."""
    taken, until = 0, time.monotonic() + BUDGET_SECONDS
    while settings.PDCP_ALARM_WEBHOOK_URL and time.monotonic() < until:
        at = time.time() if now is None else now
        notice = AlarmNotice.objects.using(FACTS).filter(state=AlarmNotice.State.WAITING).order_by("pk").first()
        if notice is None or _waits(notice, at) or not _claim(notice, at):
            break
        answer = post(notice, at)
        _settle(notice, answer, at)
        if not answer.taken:
            log.warning("alarm webhook did not take a message", problem=answer.problem, attempts=notice.attempts)
            if answer.status not in NOT_THIS_ONE:
                break
        taken += answer.taken
    return taken


def try_out() -> tuple[AlarmNotice, Answer]:
    """Send a test message at once, whatever else waits; it is not repeated. Raises Refused without a webhook."""
    if not settings.PDCP_ALARM_WEBHOOK_URL:
        raise Refused("PDCP_ALARM_WEBHOOK_URL is not set: nobody is told of alarms", code="conflict")
    now = time.time()
    (notice,) = alarm_notices.write([alarm_notices.trial()], now=now)
    if not _claim(notice, now):
        raise Refused("the alarm task was faster: see whether the message arrived", code="conflict")
    answer = post(notice, now)
    _settle(notice, answer, now, last=True)
    return notice, answer


def post(notice: AlarmNotice, now: float) -> Answer:
    began = time.monotonic()
    try:
        fetched = asyncio.run(
            outgoing.fetch(
                "POST",
                settings.PDCP_ALARM_WEBHOOK_URL,
                headers=headers(notice.notice, notice.body, now),
                body=notice.body.encode(),
                timeout=TIMEOUT_SECONDS,
                allowed=outgoing.operators_own(),
                any_port=True,
            )
        )
    except outgoing.Unreachable as unreachable:
        return Answer(None, f"no usable answer came: {unreachable.why}", time.monotonic() - began)
    except Refused as refused:
        return Answer(None, refused.sentence, time.monotonic() - began)
    took = time.monotonic() - began
    if 200 <= fetched.status < 300:
        return Answer(fetched.status, took=took)
    problem = f"it answered {fetched.status}"
    if 300 <= fetched.status < 400:
        problem += ", and redirects are not followed"
    return Answer(fetched.status, problem, took, _again_after(fetched.headers.get("retry-after", "")))


def headers(notice: str, body: str, now: float) -> dict[str, str]:
    """As standardwebhooks.com has them: the id, the time, and both signed together with the body."""
    at = str(int(now))
    said = {"content-type": "application/json", "webhook-id": notice, "webhook-timestamp": at}
    if settings.PDCP_ALARM_WEBHOOK_SECRET:
        signed = f"{notice}.{at}.{body}".encode()
        mac = hmac.new(_secret(settings.PDCP_ALARM_WEBHOOK_SECRET), signed, hashlib.sha256).digest()
        said["webhook-signature"] = f"v1,{base64.b64encode(mac).decode()}"
    return said


def _secret(text: str) -> bytes:
    """`whsec_` and base64 as others make secrets, or any text as it is."""
    if text.startswith("whsec_"):
        try:
            return base64.b64decode(text.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return text.encode()


def _waits(notice: AlarmNotice, now: float) -> bool:
    """Longer than the longest pause nobody waits: a clock that has been set back since said so."""
    return now < notice.due_at <= now + LONGEST_PAUSE_SECONDS


def _claim(notice: AlarmNotice, now: float) -> bool:
    """Nobody else sends it until it is due again."""
    mine = AlarmNotice.objects.using(FACTS).filter(
        pk=notice.pk, state=AlarmNotice.State.WAITING, attempts=notice.attempts
    )
    claimed = mine.update(attempts=F("attempts") + 1, due_at=now + CLAIMED_SECONDS)
    notice.attempts += 1
    return bool(claimed)


def _settle(notice: AlarmNotice, answer: Answer, now: float, *, last: bool = False) -> None:
    """Put down what came of it, unless somebody has claimed it since."""
    said = {"status": answer.status, "problem": answer.problem, "took_seconds": round(answer.took, 3)}
    mine = AlarmNotice.objects.using(FACTS).filter(pk=notice.pk, attempts=notice.attempts)
    if answer.taken:
        mine.update(state=AlarmNotice.State.DELIVERED, ended_at=now, **said)
    elif last or (answer.status in NOT_THIS_ONE and notice.attempts >= TRIES):
        mine.update(state=AlarmNotice.State.REFUSED, ended_at=now, **said)
    else:
        mine.update(due_at=now + pause(notice.attempts, answer.again_after), **said)


def pause(attempts: int, asked: float | None = None) -> float:
    """Seconds until it is tried again: twice as long each time, and not in step with others; at least what was asked for.

    >>> 1.6 <= pause(1) <= 2.4, pause(99) <= LONGEST_PAUSE_SECONDS, pause(1, 60.0)
    (True, True, 60.0)
    """
    own = min(LONGEST_PAUSE_SECONDS, 2.0 ** min(attempts, 16) * random.uniform(0.8, 1.2))
    return own if asked is None else max(own, min(asked, LONGEST_PAUSE_SECONDS))


def _again_after(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
