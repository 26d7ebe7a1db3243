"""Tokens that work, as digests in memory: who shows this one, and until when it opens anything."""

from __future__ import annotations

import hmac
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from knox.crypto import hash_token
from knox.settings import CONSTANTS

from controlplane.access.roles import Who

FORM = re.compile(r"pdcp_[0-9a-f]{64}")
KEY_LENGTH = CONSTANTS.TOKEN_KEY_LENGTH


def well_formed(token: str) -> bool:
    """Whether it can be a token at all: anything else is not hashed, nor asked of a database."""
    return FORM.fullmatch(token) is not None


@dataclass(frozen=True, slots=True)
class Key:
    """One token. `token_key` is its beginning, by which people and logs may call it; the rest is nowhere."""

    token_key: str
    digest: str
    name: str
    verbs: frozenset[str]
    instance: str = ""
    expires_at: float | None = None
    last_used_at: float | None = None

    def who(self, source: str) -> Who:
        return Who(
            f"token:{self.name}",
            verbs=self.verbs,
            instance=self.instance,
            via="token",
            source=source,
            key=self.token_key,
        )


class Keyring:
    """Finds the key of a token. Whatever is shown, in whatever form, costs one hash at most."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys: defaultdict[str, list[Key]] = defaultdict(list)
        for key in keys:
            self._keys[key.token_key].append(key)

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def find(self, token: str, *, now: float) -> Key | None:
        """The key, while it has not expired."""
        if not well_formed(token):
            return None
        digest = hash_token(token)
        for key in self._keys.get(token[:KEY_LENGTH], ()):
            if hmac.compare_digest(key.digest, digest) and (key.expires_at is None or now < key.expires_at):
                return key
        return None
