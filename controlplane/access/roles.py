"""Who may do what: one table of verbs, read by the API, the sockets, the admin, the pages and the bootstrap doors."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Role(IntEnum):
    """What a person is, by the Django group of that name; a superuser is an admin."""

    NOBODY = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


READ, RESOLVE, OPERATE, ADMINISTER = "read", "resolve", "operate", "administer"
REGISTER, ENGINE_INFO, REPORT, GATEWAY = "register", "engine-info", "report", "gateway"

LEAST_ROLE = {
    READ: Role.VIEWER,
    RESOLVE: Role.VIEWER,
    OPERATE: Role.OPERATOR,
    ADMINISTER: Role.ADMIN,
    # What machines do. A person may try it by hand only as an admin.
    REGISTER: Role.ADMIN,
    ENGINE_INFO: Role.VIEWER,
    REPORT: Role.ADMIN,
    GATEWAY: Role.ADMIN,
}
"""The role a person needs for each verb."""

TOKEN_VERBS = (READ, RESOLVE, REGISTER, ENGINE_INFO, REPORT, GATEWAY, OPERATE)
"""What a token can be given. Never to administer: tokens do not make tokens."""


@dataclass(frozen=True, slots=True)
class Who:
    """Whoever asks. `name` is what the ledger calls them; a token is `token:NAME`, and may be bound to one instance."""

    name: str
    role: Role = Role.NOBODY
    verbs: frozenset[str] = field(default_factory=frozenset)
    instance: str = ""
    via: str = "session"
    source: str = ""
    # Of a session it is the secret in its cookie, so it is never shown.
    key: str = field(default="", repr=False)
    """What identifies the session or the token, so that a live socket can be found when it is revoked."""

    @property
    def known(self) -> bool:
        return self.role > Role.NOBODY or bool(self.verbs)

    def may(self, verb: str, instance: str | None = None) -> bool:
        """Whether `verb` is allowed, on `instance` if it concerns one; None: it concerns the whole fleet.

        >>> Who("ann", Role.OPERATOR).may("operate", "a"), Who("ann", Role.OPERATOR).may("administer")
        (True, False)
        >>> worker = Who("token:w", verbs=frozenset({"register"}), instance="a")
        >>> worker.may("register", "a"), worker.may("register", "b"), worker.may("register")
        (True, False, False)
        """
        if self.role >= LEAST_ROLE[verb] and self.role > Role.NOBODY:
            return True
        return verb in self.verbs and (not self.instance or instance == self.instance)


NOBODY = Who("")


def role_of(user: Any) -> Role:
    """The highest role among a user's groups. Inactive and anonymous users have none."""
    if not getattr(user, "is_authenticated", False) or not user.is_active:
        return Role.NOBODY
    if user.is_superuser:
        return Role.ADMIN
    names = set(user.groups.values_list("name", flat=True))
    return max((role for role in Role if role and role.name.lower() in names), default=Role.NOBODY)
