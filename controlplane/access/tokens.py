"""Tokens of machines: made, shown once, looked up by digest, revoked. Times are seconds since the epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError, transaction
from django.db.models import Q
from knox.models import get_digest_token

from controlplane.access.keyring import KEY_LENGTH, Key, Keyring, well_formed
from controlplane.access.revocation import say_token_changed
from controlplane.access.roles import TOKEN_VERBS, Who
from controlplane.databases import FACTS, READER
from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from controlplane.ledger import wake
from controlplane.ledger.append import NewEvent, append
from controlplane.ledger.failures import tried_again
from controlplane.models.access import MachineToken

log = structlog.get_logger(__name__)

USED_SECONDS = 60.0
"""How exact `last_used_at` is: a token that is used all the time is written down once in so long."""

LONGEST_NAME = 100
LONGEST_ACTOR = 150
LONGEST_REASON = 2000
LATEST_EXPIRY = datetime(9999, 1, 1, tzinfo=UTC).timestamp()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as people see it. `state`: active, expired, revoked, or orphaned (whoever made it is not active)."""

    key: str
    name: str
    verbs: tuple[str, ...]
    instance: str
    state: str
    made_by: str
    made_at: float
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float | None
    revoked_by: str


def make(
    name: str,
    verbs: Collection[str],
    instance: str,
    expires_at: float | None,
    user: Any,
    reason: str = "",
    *,
    actor: str = "",
    now: float | None = None,
) -> tuple[MachineToken, str]:
    """A new token and its text, which is never to be had again. `instance` blank: all; `expires_at` None: never.

    `user` answers for it: when they are deleted or deactivated, it stops working. `actor` is for the ledger, when
    somebody else asks for it in their name.
    """
    now = time.time() if now is None else now
    _check_text(name, "the token's name", LONGEST_NAME, needed=True)
    _check_text(actor, "the actor's name", LONGEST_ACTOR)
    _check_text(reason, "the reason", LONGEST_REASON)
    granted = [verb for verb in TOKEN_VERBS if verb in verbs]
    strange = sorted(set(verbs) - set(TOKEN_VERBS))
    if strange or not granted:
        what = f"not {strange[0]!r}" if strange else "at least one"
        raise Refused(f"a token's verbs are {', '.join(TOKEN_VERBS)}: {what}", code="malformed")
    if instance:
        check_name(instance)
    if expires_at is not None and not now < expires_at < LATEST_EXPIRY:
        raise Refused("a token expires in the future, or never", code="malformed")
    if not user.is_active:
        raise Refused(f"the account {user.get_username()} is not active", code="forbidden")

    def work() -> tuple[MachineToken, str]:
        digest, text = get_digest_token()
        made = MachineToken(
            digest=digest,
            token_key=text[:KEY_LENGTH],
            user=user,
            expiry=None if expires_at is None else _moment(expires_at),
            name=name,
            instance=instance,
            verbs=",".join(granted),
        )
        made.save(using=FACTS, force_insert=True)
        data = {
            "token": made.token_key,
            "name": name,
            "verbs": granted,
            "token_instance": instance,
            "expires": expires_at,
        }
        _append(NewEvent("token.made", instance, data, actor or user.get_username(), reason))
        return made, text

    return _recorded(work)


def revoke(token_key: str, actor: str, reason: str = "") -> bool:
    """End a token at once; False when it was revoked before. The row stays, for the record."""
    _check_text(actor, "the actor's name", LONGEST_ACTOR, needed=True)
    _check_text(reason, "the reason", LONGEST_REASON)
    _check_text(token_key, "the token's key", LONGEST_NAME, needed=True)

    def work() -> bool:
        known = MachineToken.objects.using(FACTS).filter(token_key=token_key).order_by("-created").first()
        if known is None:
            raise Refused(f"no token begins with {token_key}", code="not_found")
        ended = MachineToken.objects.using(FACTS).filter(token_key=token_key, revoked_at=None)
        if not ended.update(revoked_at=_moment(time.time()), revoked_by=actor):
            return False
        data = {"token": token_key, "name": known.name}
        _append(NewEvent("token.revoked", known.instance, data, actor, reason))
        transaction.on_commit(partial(say_token_changed, token_key), using=FACTS)
        return True

    return _recorded(work)


def who_has(token: str, *, source: str, now: float) -> Who | None:
    """Whoever shows this token; None when it is unknown, revoked, expired, or its maker is gone or inactive."""
    if not well_formed(token):
        return None
    key = Keyring(keys(token[:KEY_LENGTH])).find(token, now=now)
    if key is None:
        return None
    if key.last_used_at is None or key.last_used_at < now - USED_SECONDS:
        note_use([key.digest], now=now)
    return key.who(source)


def keys(token_key: str | None = None) -> list[Key]:
    """The tokens that are neither revoked nor orphaned, all of them or those of one key. Expiry is for the keyring."""
    rows = MachineToken.objects.using(FACTS).filter(revoked_at=None, user__is_active=True)
    if token_key is not None:
        rows = rows.filter(token_key=token_key)
    return [
        Key(
            row.token_key,
            row.digest,
            row.name,
            frozenset(row.verbs.split(",")),
            row.instance,
            _seconds(row.expiry),
            _seconds(row.last_used_at),
        )
        for row in rows
    ]


def note_use(digests: Iterable[str], *, now: float) -> None:
    """Write down that they were used, unless that was less than a minute ago. Never raises."""
    stale = Q(last_used_at=None) | Q(last_used_at__lt=_moment(now - USED_SECONDS))
    used = MachineToken.objects.using(FACTS).filter(stale, digest__in=list(digests))
    try:
        # Asked first: on SQLite an update takes the lock that all writers share, even when it finds nothing.
        if used.exists():
            used.update(last_used_at=_moment(now))
    except DatabaseError as problem:
        log.warning("token_use_not_noted", problem=type(problem).__name__)


def listing(*, now: float | None = None) -> list[TokenRow]:
    """All tokens, the newest first, revoked ones too."""
    now = time.time() if now is None else now
    rows = MachineToken.objects.using(READER).select_related("user").order_by("-created", "token_key")
    return [row_of(token, now=now) for token in rows]


def row_of(token: MachineToken, *, now: float) -> TokenRow:
    expires_at, revoked_at = _seconds(token.expiry), _seconds(token.revoked_at)
    if revoked_at is not None:
        state = "revoked"
    elif expires_at is not None and expires_at <= now:
        state = "expired"
    else:
        state = "active" if token.user.is_active else "orphaned"
    return TokenRow(
        token.token_key,
        token.name,
        tuple(token.verbs.split(",")),
        token.instance,
        state,
        token.user.get_username(),
        token.created.timestamp(),
        expires_at,
        _seconds(token.last_used_at),
        revoked_at,
        token.revoked_by,
    )


def _recorded(work: Callable[[], Result]) -> Result:
    def once() -> Result:
        with transaction.atomic(using=FACTS):
            return work()

    return tried_again(once)


def _append(event: NewEvent) -> None:
    transaction.on_commit(partial(wake.publish, append([event])), using=FACTS)


def _check_text(text: str, what: str, limit: int, *, needed: bool = False) -> None:
    if needed and not text.strip():
        raise Refused(f"{what} is missing", code="malformed")
    if len(text) > limit:
        raise Refused(f"{what} has {len(text)} characters; at most {limit} are kept", code="malformed")
    if "\x00" in text or (needed and not text.isprintable()):
        raise Refused(f"{what} contains control characters", code="malformed")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
