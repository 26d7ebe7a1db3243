"""Which address of this host the others are told: by explicit setting, then interface, then the route to the control plane.

Nothing outside is contacted, so that a closed network without DNS and without a default route will do. Loopback is never
advertised to a control plane on another host. (SGLang asks for the route to public name servers: utils/network.py,
get_local_ip_by_remote.)
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.addresses import canonical_host, is_loopback, parse_ip
from controlplane.domain.errors import Refused

from . import interfaces
from .errors import NotAdvertisable
from .places import Place

log = logging.getLogger(__name__)

HOST_VARIABLES = ("SGLANG_HOST_IP", "HOST_IP")
INTERFACE_VARIABLE = "SGLANG_LOCAL_IP_NIC"
RESOLVE_SECONDS = 5.0

_said: set[OwnAddress] = set()


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """The address, in its one form without brackets, and why it was chosen."""

    host: str
    why: str


def own_address(
    control_plane: Place,
    *,
    explicit: str | None = None,
    interface: str | None = None,
    environ: Mapping[str, str] | None = None,
    behind_nat: bool = False,
) -> OwnAddress:
    """The address to register as `rank_ip`. Says once, in the log, which it is and why.

    `explicit` and `interface` win over SGLang's variables of the environment (SGLANG_HOST_IP, HOST_IP,
    SGLANG_LOCAL_IP_NIC). With `behind_nat` an explicit address need not be one of this host.

    Raises NotAdvertisable with what to set. A name of the control plane is resolved, as connecting to it would.
    """
    env = os.environ if environ is None else environ
    remote = _resolved(control_plane)
    same_host = _are_here(remote)
    chosen = _explicit(explicit, env, behind_nat) or _interface(interface, env) or _routed(remote, control_plane)
    if chosen is None:
        raise NotAdvertisable(
            f"there is no route from here to the control plane at {control_plane}, so no address of this host is known to"
            f" be reachable; give one (or set {HOST_VARIABLES[0]}), or name an interface ({INTERFACE_VARIABLE})"
        )
    if is_loopback(chosen.host) and not same_host:
        raise NotAdvertisable(
            f"{chosen.host} ({chosen.why}) is loopback, and the control plane at {control_plane} is on another host: ranks"
            f" there would reach themselves; give an address that they can reach ({HOST_VARIABLES[0]})"
        )
    if chosen not in _said:
        _said.add(chosen)
        log.info("this host is advertised as %s: %s", chosen.host, chosen.why)
    return chosen


def on_this_host(place: Place) -> bool:
    """Whether `place` is on the host this runs on. A name that cannot be resolved just now is not."""
    try:
        return _are_here(_resolved(place))
    except NotAdvertisable:
        return False


def _are_here(addresses: list[str]) -> bool:
    return all(is_loopback(address) or interfaces.is_local(address) for address in addresses)


def _explicit(given: str | None, env: Mapping[str, str], behind_nat: bool) -> OwnAddress | None:
    sources = [("it was given", given), *((f"{name} says so", env.get(name)) for name in HOST_VARIABLES)]
    found = next(((why, text) for why, text in sources if text), None)
    if found is None:
        return None
    why, text = found
    try:
        host = canonical_host(text)
    except Refused as refused:
        raise NotAdvertisable(f"the address of this host ({why}) cannot be used: {refused.sentence}") from None
    if behind_nat:
        return OwnAddress(host, why)
    addresses = [host] if parse_ip(host) else _lookup(host, 0)
    if not addresses:
        raise NotAdvertisable(f"{host} ({why}) cannot be resolved here, so nobody else is told to look it up")
    if not any(interfaces.is_local(address) for address in addresses):
        raise NotAdvertisable(
            f"{host} ({why}) is no address of this host; if others reach it there all the same, say that it is behind NAT"
        )
    if parse_ip(host) is None and all(is_loopback(address) for address in addresses):
        # /etc/hosts of many machines does that to their own name.
        return OwnAddress(addresses[0], f"{why}: {host} is resolved to it")
    return OwnAddress(host, why)


def _interface(given: str | None, env: Mapping[str, str]) -> OwnAddress | None:
    name = given or env.get(INTERFACE_VARIABLE)
    if not name:
        return None
    usable = [host for host in map(_usable, interfaces.of_interface(name)) if host]
    if not usable:
        there = ", ".join(interfaces.interface_names()) or "none"
        raise NotAdvertisable(f"the interface {name} has no address that could be advertised; there are {there}")
    return OwnAddress(usable[0], f"it is the address of interface {name}")


def _routed(remote: list[str], control_plane: Place) -> OwnAddress | None:
    for address in remote:
        found = interfaces.on_the_way_to(address, control_plane.port)
        host = _usable(found) if found else None
        if host:
            return OwnAddress(host, f"the way to the control plane at {control_plane} begins there")
    return None


def _usable(address: str) -> str | None:
    try:
        return canonical_host(address)
    except Refused:
        return None


def _resolved(control_plane: Place) -> list[str]:
    host = control_plane.host
    if parse_ip(host) is not None:
        return [host]
    if is_loopback(host):
        return ["127.0.0.1"]
    found = _lookup(host, control_plane.port)
    if not found:
        raise NotAdvertisable(f"the name of the control plane, {host}, cannot be resolved here; give its address")
    return found


def _lookup(name: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
