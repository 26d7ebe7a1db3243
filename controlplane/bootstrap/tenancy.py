"""Which instance a request means. The path cannot say it on SGLang's wire, so six things may, in this order."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import unquote

from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name

from .fleet import DEFAULT_NAME, Fleet, Instance

PREFIX = "/i/"


class Meant(NamedTuple):
    """The name that was said (or the default's), the instance of that name if there is one."""

    name: str
    instance: Instance | None
    named: bool


def bare_path(path: str) -> str:
    """`/i/NAME/route` is `/route` of NAME."""
    return "/" + path[len(PREFIX) :].partition("/")[2] if path.startswith(PREFIX) else path


def said_in(path: str, headers: dict[bytes, bytes]) -> str | None:
    """The name that path, header or user name say, in this order. Raises Refused (400) for what is no name."""
    if path.startswith(PREFIX):
        return check_name(unquote(path[len(PREFIX) :].partition("/")[0]))
    given = headers.get(b"x-pd-instance")
    name = given.decode("latin-1") if given else _basic_user(headers.get(b"authorization"))
    return check_name(name) if name is not None else None


def meant(fleet: Fleet, name: str | None, headers: dict[bytes, bytes], port: int, *, ranks: bool) -> Meant:
    """Raises Refused (503) when several instances share the listener and nothing names one. `ranks`: it is about those."""
    if name is not None:
        return Meant(name, fleet.named(name), True)
    instance = fleet.by_port.get(port)
    if instance is None and fleet.by_alias:
        instance = fleet.by_alias.get(_host(headers.get(b"host", b"")))
    if instance is None:
        instance = fleet.only_one(ranks=ranks)
    return Meant(instance.name if instance else DEFAULT_NAME, instance, False)


def _basic_user(authorization: bytes | None) -> str | None:
    """The user name of HTTP Basic: what an unmodified decode sends for bootstrap_host "NAME:x@host". It is an
    identifier; the password beside it is never read."""
    if authorization is None or authorization[:6].lower() != b"basic ":
        return None
    try:
        pair = base64.b64decode(authorization[6:].strip(), validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        raise Refused("the Authorization header is not HTTP Basic", code="malformed") from None
    user = unquote(pair.partition(":")[0])
    return user or None


def _host(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    name = text.rsplit(":", 1)[0] if text.count(":") == 1 else text
    # Whoever writes a name in full, so that no search domain is tried, writes the dot of the root too.
    return name.removesuffix(".")
