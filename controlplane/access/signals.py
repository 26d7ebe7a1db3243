"""What Django says of sign-ins and accounts: kept as attempts, and told to the sockets that it concerns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.db.models.signals import m2m_changed, post_save, pre_delete

from controlplane.access import attempts, revocation
from controlplane.access.roles import Who, role_of
from controlplane.databases import FACTS
from controlplane.models.access import MachineToken


def connect() -> None:
    """Once a process, when all apps are there."""
    user = get_user_model()
    user_logged_in.connect(_signed_in, dispatch_uid="pd.signed-in")
    user_login_failed.connect(_not_signed_in, dispatch_uid="pd.not-signed-in")
    user_logged_out.connect(_signed_out, dispatch_uid="pd.signed-out")
    post_save.connect(_account_saved, sender=user, dispatch_uid="pd.account-saved")
    pre_delete.connect(_account_deleted, sender=user, dispatch_uid="pd.account-deleted")
    m2m_changed.connect(_groups_changed, sender=user.groups.through, dispatch_uid="pd.groups-changed")


def _signed_in(sender: Any, request: Any, user: Any, **_: Any) -> None:
    how = getattr(request, "sign_in_by", "password")
    who = Who(user.get_username(), role_of(user), source=_source(request))
    attempts.note(who, "sign-in", user.get_username(), allowed=True, status=302, outcome=f"signed in by {how}")


def _not_signed_in(sender: Any, credentials: dict[str, Any], request: Any = None, **_: Any) -> None:
    # What stands in the name field may be a password, typed into the wrong one: only names that exist are kept.
    name = credentials.get(get_user_model().USERNAME_FIELD)
    known = isinstance(name, str) and "\x00" not in name
    known = known and get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: name}).exists()
    waits = bool(getattr(request, "sign_in_wait", 0))
    attempts.note(
        Who("", source=_source(request)),
        "sign-in",
        str(name) if known else "(unknown account)",
        allowed=False,
        status=429 if waits else 401,
        outcome="too many tries" if waits else "wrong name or password, or not active",
    )


def _signed_out(sender: Any, request: Any, user: Any, **_: Any) -> None:
    if user is None:
        return
    key = request.session.session_key
    if key:
        # Django ends the session after this signal; a socket that looks at once must find it ended.
        request.session.delete(key)
        revocation.say_session_ended(key)
    who = Who(user.get_username(), role_of(user), source=_source(request))
    attempts.note(who, "sign-out", user.get_username(), allowed=True, status=302)


def _account_saved(sender: Any, instance: Any, created: bool, update_fields: Iterable[str] | None, **_: Any) -> None:
    # Every sign-in writes last_login, and nothing else.
    if not created and set(update_fields or ("all",)) != {"last_login"}:
        _say_account_changed(instance)


def _account_deleted(sender: Any, instance: Any, **_: Any) -> None:
    _say_account_changed(instance)


def _groups_changed(sender: Any, instance: Any, action: str, reverse: bool, pk_set: set[Any] | None, **_: Any) -> None:
    if not action.startswith("post_"):
        return
    # From the group's side: its members were given or taken.
    accounts = get_user_model().objects.filter(pk__in=pk_set or ()) if reverse else [instance]
    for account in accounts:
        _say_account_changed(account)


def _say_account_changed(account: Any) -> None:
    keys = MachineToken.objects.using(FACTS).filter(user=account, revoked_at=None).values_list("token_key", flat=True)
    for say, key in [(revocation.say_user_changed, account.get_username())] + [
        (revocation.say_token_changed, key) for key in keys
    ]:
        transaction.on_commit(partial(say, key), using=FACTS)


def _source(request: Any) -> str:
    return str(request.META.get("REMOTE_ADDR") or "") if request is not None else ""
