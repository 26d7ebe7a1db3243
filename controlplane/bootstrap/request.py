"""One request, in two parts: its head, which repeats byte for byte and is understood once, and this time's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.protocol.reading import short_text

from .bodies import Receive
from .tenancy import said_in

if TYPE_CHECKING:
    from .connection import Connection

TOKEN_HEADERS = (b"x-pd-generation", b"x-sglang-disaggregation-instance-id")


class Head:
    """What is the same whenever these bytes come again. `name` and `token` raise Refused for what cannot be one."""

    __slots__ = ("_name", "_token", "headers", "method", "path", "query")

    def __init__(self, scope: dict[str, Any]) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._name: tuple[str | None] | None = None
        self._token: tuple[str | None] | None = None

    @property
    def name(self) -> str | None:
        """The instance that is named by path, header or user name; None when nothing names one."""
        if self._name is None:
            self._name = (said_in(self.path, self.headers),)
        return self._name[0]

    @property
    def token(self) -> str | None:
        """Which launch a PUT says it belongs to."""
        if self._token is None:
            self._token = (_token(self.headers),)
        return self._token[0]


class Request:
    """A head that came over a connection. `receive` is ASGI's, None when the body came along."""

    __slots__ = ("connection", "head", "receive", "source")

    def __init__(self, head: Head, connection: Connection, receive: Receive | None = None) -> None:
        self.head = head
        self.connection = connection
        self.receive = receive
        self.source: str = connection.client[0] if connection.client else ""


def _token(headers: dict[bytes, bytes]) -> str | None:
    for name in TOKEN_HEADERS:
        value = headers.get(name)
        if value:
            return short_text(value.decode("latin-1"), name.decode(), 128)
    return None
