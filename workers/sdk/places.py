"""Addresses of servers as people, routers and requests write them, in one form that nothing splits at the wrong colon."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from controlplane.domain.addresses import bracketed, canonical_host, is_loopback, parse_ip
from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name

from .errors import BadAddress

KV_PORT = 8998
ENGINE_INFO_PORT = 6789
API_PORT = 8000

FAKE_HOST = "2.2.2.2"
"""SGLang's FAKE_BOOTSTRAP_HOST (disaggregation/utils.py): a request that transfers nothing and has no peer."""

_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]{1,5}")
_MISSING = ("", "none", "null")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens. `host` has no brackets; `prefix` is a path in front of all others, without a slash behind.

    `instance` is the name that a user part said (`prefill-a:x@10.0.0.5`), as unmodified decodes name theirs.

    >>> str(Place("fd00::1", 8998)), Place("fd00::1", 8998).url("/route"), Place("fd00::1", 41000).endpoint
    ('[fd00::1]:8998', 'http://[fd00::1]:8998/route', 'tcp://[fd00::1]:41000')
    """

    host: str
    port: int
    scheme: str = "http"
    prefix: str = ""
    instance: str | None = None

    @property
    def authority(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def endpoint(self) -> str:
        """As ZeroMQ takes it. Its sockets need `zmq.IPV6` when `is_ipv6`."""
        return f"tcp://{self.authority}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}{path}"

    def __str__(self) -> str:
        return self.authority


def read_place(text: str | None, *, default_port: int = KV_PORT, what: str = "the bootstrap address") -> Place:
    """The place that `text` means: `HOST`, `HOST:PORT`, `[V6]:PORT`, `V6`, `NAME:x@HOST:PORT` or an http(s) URL.

    An IPv6 address without brackets is all address: a port behind it could not be told from its last group. A URL without a
    port means its scheme's own, everything else `default_port`.

    >>> [str(read_place(text)) for text in ("[::1]:9", "::1", "[::1]", "localhost", "10.0.0.5:9")]
    ['[::1]:9', '[::1]:8998', '[::1]:8998', 'localhost:8998', '10.0.0.5:9']

    Raises BadAddress for what is missing (`None`, empty, and the texts `None` and `null`), malformed, or an address that
    no server can have. Looks up no name.
    """
    if text is not None and not isinstance(text, str):
        raise BadAddress(f"{what} must be text, not {type(text).__name__}")
    if text is None or text.strip().lower() in _MISSING:
        raise BadAddress(f"{what} is missing: give HOST or HOST:PORT of the server")
    given, scheme, default = text.strip(), "http", default_port
    if found := _SCHEME.match(given):
        scheme, given = found["scheme"].lower(), given[found.end() :]
        if scheme not in ("http", "https"):
            raise BadAddress(f"{what} begins with {scheme}://; http:// and https:// are spoken here")
        default = 443 if scheme == "https" else 80
    if "?" in given or "#" in given:
        raise BadAddress(f"{what} must end with the path; it has a query or a fragment")
    authority, slash, path = given.partition("/")
    user, _, authority = authority.rpartition("@")
    host, port = _split(authority, what)
    try:
        instance = check_name(unquote(user.partition(":")[0])) if user else None
        return Place(
            canonical_host(host),
            default if port is None else read_port(port, what=f"the port of {what}"),
            scheme,
            f"/{path.rstrip('/')}" if slash and path.rstrip("/") else "",
            instance,
        )
    except Refused as refused:
        raise BadAddress(f"{what}: {refused.sentence}") from None


def read_port(value: Any, *, what: str = "the port") -> int:
    """1 to 65535, as a number or as text of digits. Raises BadAddress.

    >>> read_port("8998"), read_port(8998)
    (8998, 8998)
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in _MISSING):
        raise BadAddress(f"{what} is missing")
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise BadAddress(f"{what} must be a number between 1 and 65535, not {str(value)[:40]!r}")
    return value


def requested_place(host: Any, port: Any, *, of_host: str = "bootstrap_host", of_port: str = "bootstrap_port") -> Place:
    """The place that a request's `bootstrap_host` and `bootstrap_port` mean. Both are needed; nothing is guessed.

    >>> str(requested_place("prefill-a:x@fd00::1", "8998")), requested_place("a:x@h", 1).instance
    ('[fd00::1]:8998', 'a')

    Raises BadAddress (a 400 for whoever asks), also when the host has a port of its own, which says something else.
    """
    place = read_place(host, what=of_host)
    wanted = read_port(port, what=of_port)
    text = str(host).strip()
    if "/" in text or _split(text.rpartition("@")[2], of_host)[1] is not None:
        raise BadAddress(f"{of_host} must be a host alone; its port is said by {of_port}")
    return replace(place, port=wanted)


def is_fake(host: Any) -> bool:
    """Whether a request's `bootstrap_host` means SGLang's fake transfer: no peer, no connection."""
    return isinstance(host, str) and host.strip() == FAKE_HOST


def check_published(host: str, *, instead: str | None = None) -> str:
    """The bootstrap host that a prefill tells to routers on other hosts, in its one form.

    Raises BadAddress for loopback and wildcard addresses, naming the address of this host that would do (`instead`).
    """
    advice = f"; {instead} is an address of this host" if instead else "; name an address that other hosts can reach"
    bare = host.strip("[]") if isinstance(host, str) else ""
    address = parse_ip(bare)
    if address is not None and address.is_unspecified:
        raise BadAddress(f"the published bootstrap host {bare} means every address, not one to connect to{advice}")
    place = read_place(host, what="the published bootstrap host")
    if place.is_loopback:
        raise BadAddress(
            f"the published bootstrap host {place.host} is loopback: others would reach themselves{advice}"
        )
    return place.host


def _split(authority: str, what: str) -> tuple[str, str | None]:
    """Host (with its brackets, if any) and port text, None when there is no port."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise BadAddress(f"{what}: {authority[:60]!r} is not an IPv6 address in brackets")
        return host + "]", rest[1:] if rest else None
    if authority.count(":") > 1:
        return authority, None
    host, colon, port = authority.partition(":")
    return host, port if colon else None
