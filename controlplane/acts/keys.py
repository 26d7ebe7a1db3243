"""Who may give a router the API keys of its workers."""

from __future__ import annotations

from collections.abc import Collection

from controlplane.access.roles import ADMINISTER, Who
from controlplane.domain.errors import Refused
from controlplane.queries import routers


def check_keys(who: Who, names: Collection[str]) -> None:
    """A router is given the API keys of its workers: whoever chooses it chooses who learns them."""
    keyed = routers.keyed(names)
    if keyed and not who.may(ADMINISTER):
        raise Refused(
            f"the engine of {keyed[0]} has an API key, which the router would be given: an administrator must name it",
            code="forbidden",
        )
