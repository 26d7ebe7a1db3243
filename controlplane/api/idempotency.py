"""Idempotency-Key: whoever sends a POST again, because the answer was lost, gets the first answer and no second deed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import msgspec
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse

from controlplane.access.roles import Who
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.models import IdempotentRequest

KEY = re.compile(r"[\x21-\x7e]{1,128}")
KEPT_SECONDS = 86_400.0
IN_FLIGHT_SECONDS = 60.0
"""After so long, whoever worked on it is dead: the next one with the key tries again."""

FORGOTTEN_AT_ONCE = 100
KEPT_HEADERS = ("Location", "ETag", "Content-Type")
AGAIN = "Idempotency-Replayed"


class Answered(Exception):
    """This was done before; `answer` is what was said then."""

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__("answered before")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to do what a key stands for, once."""

    pk: int

    def keep(self, answer: HttpResponse, body: bytes) -> None:
        """Answers that a second try could turn out better than are not kept: then the key is free again."""
        row = IdempotentRequest.objects.using(FACTS).filter(pk=self.pk)
        if answer.status_code >= 500:
            row.delete()
            return
        headers = {name: answer[name] for name in KEPT_HEADERS if name in answer}
        row.update(status=answer.status_code, headers=msgspec.json.encode(headers).decode(), body=body.decode())


def claim(request: HttpRequest, who: Who, raw: bytes, *, now: float) -> Claim | None:
    """None without a key. Raises Answered, or Refused (in_flight 409, other_payload 422, malformed 400)."""
    key = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return None
    if not KEY.fullmatch(key):
        raise Refused("an Idempotency-Key has 1 to 128 visible ASCII characters", code="malformed")
    digest = _digest(request, who, raw)
    _forget(now)
    try:
        with transaction.atomic(using=FACTS):
            made = IdempotentRequest.objects.using(FACTS).create(actor=who.name, key=key, digest=digest, at=now)
        return Claim(made.pk)
    except IntegrityError:
        return _seen(who, key, digest, now)


def _seen(who: Who, key: str, digest: str, now: float) -> Claim:
    rows = IdempotentRequest.objects.using(FACTS).filter(actor=who.name, key=key)
    first = rows.first()
    if first is None:
        raise Refused("the first request with this Idempotency-Key has just failed; send it again", code="in_flight")
    if first.digest != digest:
        raise Refused("this Idempotency-Key was used for another request", code="other_payload")
    if first.status:
        raise Answered(_again(first))
    # Compare-and-set on its age: of two who find it abandoned, one goes on.
    abandoned = now - first.at > IN_FLIGHT_SECONDS and rows.filter(at=first.at, status=0).update(at=now)
    if not abandoned:
        raise Refused("the first request with this Idempotency-Key is still being worked on", code="in_flight")
    return Claim(first.pk)


def _again(row: IdempotentRequest) -> HttpResponse:
    answer = HttpResponse(row.body.encode(), status=row.status)
    for name, value in msgspec.json.decode(row.headers).items():
        answer[name] = value
    answer[AGAIN] = "true"
    answer["Cache-Control"] = "no-store"
    return answer


def _digest(request: HttpRequest, who: Who, raw: bytes) -> str:
    # The token too: another one with the same name is somebody else.
    token = who.key if who.via == "token" else ""
    parts = [
        request.method or "",
        request.get_full_path(),
        request.META.get("HTTP_IF_MATCH", ""),
        token,
    ]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass") + b"\n" + raw).hexdigest()


def _forget(now: float) -> None:
    rows = IdempotentRequest.objects.using(FACTS)
    old = list(rows.filter(at__lt=now - KEPT_SECONDS).values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    if old:
        rows.filter(pk__in=old).delete()
