"""The client's half of HTTP/1.1, without I/O: what is sent, and what an answer's head says about its body (RFC 9112).

Nothing is decompressed and no redirect followed; whatever is ambiguous is refused, since both ends would then read
different answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HEAD_LIMIT = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_LENGTH = re.compile(r"[0-9]{1,15}")
_BARE = re.compile(rb"[\r\n\x00]")


class Unreadable(Exception):
    """The bytes are no HTTP/1.1 answer; the text is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status, headers by lower-case name, and how the body ends: after `length` bytes, in `chunked` pieces, or with the
    connection (neither). `keeps`: the connection may be used again."""

    status: int
    headers: Mapping[str, str]
    length: int | None
    chunked: bool
    keeps: bool


def request_head(
    method: str, target: str, authority: str, headers: Mapping[str, str], *, length: int | None, chunked: bool = False
) -> bytes:
    """The bytes before the body. Raises ValueError for a header or target that would begin another line."""
    lines = [f"{method} {target} HTTP/1.1", f"host: {authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if chunked:
        lines.append("transfer-encoding: chunked")
    elif length is not None:
        lines.append(f"content-length: {length}")
    encoded = [line.encode("latin-1") for line in lines]
    if any(_BARE.search(line) for line in encoded) or b" " in target.encode("latin-1"):
        raise ValueError("a header or the path has a line break or a space in it")
    return b"\r\n".join(encoded) + b"\r\n\r\n"


def read_head(raw: bytes, *, method: str = "GET") -> Head:
    """The head of an answer, its empty line included. Raises Unreadable."""
    lines = raw.split(b"\r\n")
    found = _STATUS.fullmatch(lines[0])
    if found is None:
        raise Unreadable(f"it begins with {lines[0][:40]!r}, which is no HTTP/1.1")
    minor, status = int(found[1]), int(found[2])
    headers: dict[str, str] = {}
    for line in lines[1:]:
        if not line:
            break
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name) or _BARE.search(value):
            raise Unreadable(f"it has the header line {line[:40]!r}")
        key, text = name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")
        if key in headers and (key != "content-length" or headers[key] != text):
            text = f"{headers[key]}, {text}"
        headers[key] = text
    length, chunked = _framing(headers, status, method)
    connection = headers.get("connection", "").lower()
    keeps = (minor == 1 and "close" not in connection) or (minor == 0 and "keep-alive" in connection)
    return Head(status, headers, length, chunked, keeps and (chunked or length is not None))


def chunk_size(line: bytes) -> int:
    """The size that a chunk's own line says, extensions ignored. Raises Unreadable."""
    size = line.rstrip(b"\r\n").partition(b";")[0].strip(b" \t")
    if not _SIZE.fullmatch(size):
        raise Unreadable(f"a chunk begins with {line[:20]!r}")
    return int(size, 16)


def as_chunk(data: bytes) -> bytes:
    """
    >>> as_chunk(b"abc"), as_chunk(b"")
    (b'3\\r\\nabc\\r\\n', b'0\\r\\n\\r\\n')
    """
    return b"%x\r\n%b\r\n" % (len(data), data)


def _framing(headers: Mapping[str, str], status: int, method: str) -> tuple[int | None, bool]:
    """Length and chunked, in the order of RFC 9112, 6.3."""
    if method == "HEAD" or status < 200 or status in (204, 304):
        return 0, False
    coding, said = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if said is not None or coding.lower().strip() != "chunked":
            raise Unreadable("nobody can tell where its body ends")
        return None, True
    if said is None:
        return None, False
    if not _LENGTH.fullmatch(said):
        raise Unreadable(f"it has the length {said[:40]!r}")
    return int(said), False
