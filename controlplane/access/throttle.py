"""How often somebody may try a password: a few times per account and per address, counted where all processes see it."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass

import structlog
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache

from controlplane.domain.addresses import parse_ip

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limit:
    tries: int
    seconds: int


PER_ACCOUNT = Limit(tries=10, seconds=300)
PER_ADDRESS = Limit(tries=30, seconds=300)

# While Redis is away people can still sign in, and this process still counts. Old entries give way to new ones.
_own = LocMemCache("sign-in", {"OPTIONS": {"MAX_ENTRIES": 10_000}})


def admit(account: str, source: str) -> int:
    """Count a try of `account` from `source`: 0 when it may be made, else for how many seconds no more may, at most.

    It is counted before the password is looked at, so that tries made at the same time count too. The account is not
    asked when the address has had its tries: one address cannot fill the store with names.
    """
    for key, limit in ((_address_key(source), PER_ADDRESS), (_account_key(account), PER_ACCOUNT)):
        if _counted(key, limit.seconds) > limit.tries:
            return limit.seconds
    return 0


def forgive(account: str) -> None:
    """Somebody who knows the password is no attacker of this account. Their address stays counted."""
    for store in (cache, _own):
        try:
            store.delete(_account_key(account))
        except Exception as problem:
            _complain(problem)


def _counted(key: str, seconds: int) -> int:
    try:
        return _count(cache, key, seconds)
    except Exception as problem:
        _complain(problem)
        return _count(_own, key, seconds)


def _count(store: BaseCache, key: str, seconds: int) -> int:
    store.add(key, 0, seconds)
    try:
        number = store.incr(key)
    except ValueError:
        # It ended between the two calls.
        store.set(key, 1, seconds)
        return 1
    if number == 1:
        store.touch(key, seconds)
    return number


def _account_key(account: str) -> str:
    return f"sign-in:account:{hashlib.sha256(account.casefold().encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _address_key(source: str) -> str:
    """One host has all the addresses of an IPv6 /64, so they count as one."""
    address = parse_ip(source)
    if isinstance(address, ipaddress.IPv6Address):
        source = str(ipaddress.ip_network((address, 64), strict=False).network_address)
    return f"sign-in:address:{hashlib.sha256(source.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _complain(problem: Exception) -> None:
    log.warning("sign_in_counted_here_alone", problem=type(problem).__name__)
