"""Keep other services' keys: sealed under SECRET_KEY in the database, opened only where they are sent."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.encoding import force_bytes

PURPOSE = b"pd-control-plane sealed keys\0"


def seal(text: str) -> str:
    """What may be stored instead of `text`. Nothing stays nothing."""
    return _box().encrypt(text.encode("utf-8", "surrogatepass")).decode("ascii") if text else ""


def unseal(text: str) -> str | None:
    """What was sealed; None when it was sealed under another SECRET_KEY, or is damaged.

    After a change of SECRET_KEY the former one opens it, as long as it stands in SECRET_KEY_FALLBACKS.
    """
    if not text:
        return ""
    try:
        return _box().decrypt(text.encode("ascii")).decode("utf-8", "surrogatepass")
    except (InvalidToken, UnicodeError):
        return None


def _box() -> MultiFernet:
    return MultiFernet([_fernet(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _fernet(key: str | bytes) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(PURPOSE + force_bytes(key)).digest()))
