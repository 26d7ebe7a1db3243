"""URLs that somebody told us: one canonical form, and what they must not be, before anything is connected."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from controlplane.domain.addresses import bracketed, canonical_host
from controlplane.domain.errors import Refused

MAX_URL = 500
DEFAULT_PORTS = {"http": 80, "https": 443}
FIRST_FREE_PORT = 1024
# Where others speak something else, and may take an HTTP request for a command: no engine listens there.
FOREIGN_PORTS = frozenset({2049, 2375, 2376, 2379, 2380, 3306, 5432, 6000, 6379, 9200, 10250, 11211, 27017})


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart. `host` is canonical, without brackets; `path` begins with a slash or is empty."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""

    @property
    def netloc(self) -> str:
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{bracketed(self.host)}{port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def on_the_wire(self) -> str:
        """What stands in the request line."""
        return (self.path or "/") + (f"?{self.query}" if self.query else "")


def parse(url: str, *, any_port: bool = False) -> Target:
    """The parts of an http or https URL, or Refused. `any_port`: also one on which no engine listens.

    >>> parse("HTTP://[FD00::1]:30000/v1").url
    'http://[fd00::1]:30000/v1'
    """
    if len(url) > MAX_URL:
        raise Refused(f"a URL has at most {MAX_URL} characters, not {len(url)}", code="malformed")
    # urlsplit drops tabs and line ends without a word, and browsers read a backslash as a slash.
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise Refused("the URL holds a character that URLs do not have", code="malformed")
    try:
        parts = urlsplit(url)
        given = parts.port
    except ValueError:
        raise Refused("the URL is malformed: its host or port cannot be read", code="malformed") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise Refused("the URL must start with http:// or https://", code="malformed")
    if "@" in parts.netloc:
        raise Refused("the URL must not hold a user or a password", code="malformed")
    host = canonical_host(parts.hostname or "")
    port = DEFAULT_PORTS[parts.scheme] if given is None else given
    if not any_port:
        _check_port(port)
    return Target(parts.scheme, host, port, parts.path, parts.query)


def canonical(url: str) -> str:
    """The URL in its one form: no trailing slash, no default port, neither query nor fragment. Refused otherwise.

    >>> canonical("HTTP://Node-7:80/")
    'http://node-7'
    """
    target = parse(url)
    if "?" in url or "#" in url:
        raise Refused("the URL must have neither a query nor a fragment", code="malformed")
    return target.url.rstrip("/")


def _check_port(port: int) -> None:
    if port in DEFAULT_PORTS.values():
        return
    if port < FIRST_FREE_PORT or port in FOREIGN_PORTS or port in _ports_of_our_stores():
        raise Refused(f"port {port} is not one on which engines, routers or gateways listen", code="forbidden")


def _ports_of_our_stores() -> set[int]:
    """Where our own database and Redis listen, whichever host they are on."""
    ports = {int(found["PORT"]) for found in settings.DATABASES.values() if found.get("PORT")}
    if settings.REDIS_URL:
        ports.add(urlsplit(settings.REDIS_URL).port or 6379)
    return ports
