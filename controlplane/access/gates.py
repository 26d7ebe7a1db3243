"""Who may use the bootstrap wires: by source network, by token, by either, or by both. Pure but for `gates()`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from django.conf import settings

from controlplane.access.roles import ENGINE_INFO, READ, REGISTER, Who
from controlplane.domain.errors import Refused
from controlplane.probes.networks import Network, contains

EVERYWHERE = {ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")}
HOW = "as Authorization: Bearer or X-PD-Token"


class By(StrEnum):
    """What opens a gate."""

    NETWORK = "network"
    TOKEN = "token"
    EITHER = "either"
    BOTH = "both"


@dataclass(frozen=True, eq=False)
class Gate:
    """One thing that can be done on the wire. `doing` ends "… may not"; the variables are those that operators set."""

    doing: str
    verb: str
    networks: tuple[Network, ...]
    networks_variable: str
    by: By = By.NETWORK
    by_variable: str = ""
    open: bool = field(init=False)
    """Whether everybody may pass, so that nothing need be looked at."""

    is_near: Callable[[str], bool] = field(init=False)
    """Whether a source lies in the networks; a peer without an address sits on this host."""

    def __post_init__(self) -> None:
        networks = self.networks
        near = lru_cache(maxsize=65_536)(lambda source: not source or contains(networks, source))
        object.__setattr__(self, "is_near", near)
        object.__setattr__(self, "open", self.by in (By.NETWORK, By.EITHER) and set(networks) >= EVERYWHERE)

    def is_settled_by(self, source: str) -> bool:
        """True when the source alone opens it, False when it takes a token; Refused when no token would help."""
        if self.open:
            return True
        if self.by is By.TOKEN:
            return False
        if self.is_near(source):
            return self.by is not By.BOTH
        if self.by is By.EITHER:
            return False
        raise Refused(f"{source} may not {self.doing} ({self.networks_variable})", code="forbidden")

    def check_token(self, token: str | None, who: Who | None, instance: Callable[[], str]) -> None:
        """Refuse unless `who`, who showed `token`, may do this to the instance that is meant.

        Nobody is told which instances there are before they have shown a token that works.
        """
        if token is None:
            raise Refused(f"a token is needed to {self.doing}, {HOW} ({self.by_variable})", code="unauthenticated")
        if who is None:
            raise Refused("this token is unknown, was revoked or has expired", code="unauthenticated")
        if who.may(self.verb, instance() if who.instance else None):
            return
        if who.instance and self.verb in who.verbs:
            raise Refused(f"{who.name} is for {who.instance} alone", code="forbidden")
        raise Refused(f"{who.name} may not {self.doing}: it is not made for {self.verb}", code="forbidden")


@dataclass(frozen=True, eq=False)
class Gates:
    """Those of both wires."""

    register: Gate
    read: Gate
    engine_info: Gate

    @property
    def want_tokens(self) -> bool:
        return any(gate.by is not By.NETWORK and not gate.open for gate in (self.register, self.engine_info))


def gates() -> Gates:
    """As settings want them."""
    reading = settings.PDCP_READ_NETWORKS, "PDCP_READ_NETWORKS"
    return Gates(
        register=Gate(
            "register here",
            REGISTER,
            settings.PDCP_REGISTER_NETWORKS,
            "PDCP_REGISTER_NETWORKS",
            By(settings.PDCP_REGISTER_BY),
            "PDCP_REGISTER_BY",
        ),
        read=Gate("read here", READ, *reading),
        engine_info=Gate(
            "read engine info here", ENGINE_INFO, *reading, By(settings.PDCP_ENGINE_INFO_BY), "PDCP_ENGINE_INFO_BY"
        ),
    )
