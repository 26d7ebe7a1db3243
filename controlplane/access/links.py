"""Issue and redeem sign-in links: single use, 15 minutes, only a hash is stored."""

import hashlib
import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction

from controlplane.models.access import SignInLink

LIFETIME = timedelta(minutes=15)
FIRST_ADMIN = "admin"


class LinkRefused(Exception):
    """Why a link does not sign anybody in, or cannot be made, as a sentence."""


def issue(*, now: datetime) -> str:
    """A token that signs in an administrator once, until `now` + 15 minutes."""
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        SignInLink.objects.create(
            user=administrator(), digest=_digest(token), created_at=now, expires_at=now + LIFETIME
        )
    return token


def redeem(token: str, *, now: datetime) -> User:
    """The administrator whom this token signs in; the token is spent by asking."""
    unspent = SignInLink.objects.filter(digest=_digest(token), used_at=None, expires_at__gt=now)
    # Asked first: on SQLite an update takes the lock that all writers share, and anybody may try a token.
    if not (unspent.exists() and unspent.update(used_at=now)):
        raise LinkRefused("This link was used before, has expired, or never existed.")
    user = SignInLink.objects.select_related("user").get(digest=_digest(token)).user
    if not (user.is_active and user.is_superuser):
        raise LinkRefused(f"The account {user.get_username()} is not an active administrator any more.")
    return user


def delete_spent(*, now: datetime) -> int:
    """Delete links that nobody can use any more; how many there were."""
    expired = SignInLink.objects.filter(expires_at__lte=now).delete()[0]
    used = SignInLink.objects.exclude(used_at=None).delete()[0]
    return expired + used


def administrator() -> User:
    """The first active administrator, made without a password where there is no account yet. Raises LinkRefused."""
    existing = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if existing:
        return existing
    if User.objects.filter(username=FIRST_ADMIN).exists():
        # Somebody took that account's rights away; a link must not give them back.
        raise LinkRefused(
            f"There is no active administrator, and the account {FIRST_ADMIN} is not one: "
            "run manage.py createsuperuser."
        )
    # Without a password: the only ways in are links, until somebody sets one.
    return User.objects.create_superuser(FIRST_ADMIN)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
