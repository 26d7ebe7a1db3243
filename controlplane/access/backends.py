"""Passwords, tried a bounded number of times: whichever form asks (our page, the admin's), it asks here."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import PermissionDenied

from controlplane.access import throttle


class LimitedPasswords(ModelBackend):
    """Leaves on the request, as `sign_in_wait`, for how many seconds no more tries are taken."""

    def authenticate(self, request: Any, username: str | None = None, password: str | None = None, **more: Any) -> Any:
        name = username if username is not None else more.get(get_user_model().USERNAME_FIELD)
        if not isinstance(name, str) or password is None:
            return None
        if "\x00" in name:
            # PostgreSQL takes no NUL; nobody is called so.
            return None
        # Code of ours that asks without a request is no visitor.
        if request is not None:
            request.sign_in_wait = throttle.admit(name, str(request.META.get("REMOTE_ADDR") or ""))
            if request.sign_in_wait:
                raise PermissionDenied
        user = super().authenticate(request, username=name, password=password)
        if user is not None and request is not None:
            throttle.forgive(name)
        return user

    async def aauthenticate(self, request: Any, *args: Any, **more: Any) -> Any:
        return await sync_to_async(self.authenticate)(request, *args, **more)
