"""What world rank 0 tells the others before anybody registers, as bytes of a fixed size: never a pickle."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

SIZE = 256
_MAGIC = b"PDL1"
_HEAD = struct.Struct(">4sHH")
_CHECK = struct.Struct(">I")
MOST_TOKEN = SIZE - _HEAD.size - _CHECK.size


class Garbled(ValueError):
    """The bytes are not what another rank of this version sends."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What all ranks of one launch must agree on: the port of the leader's bootstrap server, and the token of the launch."""

    port: int
    token: str = ""


def encode(launch: Launch) -> bytes:
    """
    >>> decode(encode(Launch(8998, "00c0ffee")))
    Launch(port=8998, token='00c0ffee')
    """
    token = launch.token.encode("ascii")
    if not 1 <= launch.port <= 65535:
        raise ValueError(f"a bootstrap port is between 1 and 65535, not {launch.port}")
    if len(token) > MOST_TOKEN:
        raise ValueError(f"a launch token has at most {MOST_TOKEN} characters, not {len(token)}")
    said = _HEAD.pack(_MAGIC, launch.port, len(token)) + token
    said = said.ljust(SIZE - _CHECK.size, b"\0")
    return said + _CHECK.pack(zlib.crc32(said))


def decode(raw: bytes) -> Launch:
    """Raises Garbled."""
    if len(raw) != SIZE:
        raise Garbled(f"{len(raw)} bytes came; {SIZE} were to come")
    said, (check,) = raw[: -_CHECK.size], _CHECK.unpack(raw[-_CHECK.size :])
    magic, port, length = _HEAD.unpack_from(said)
    if magic != _MAGIC or check != zlib.crc32(said) or length > MOST_TOKEN or not port:
        raise Garbled("they are not those of another rank: is it of another version?")
    try:
        return Launch(port, said[_HEAD.size : _HEAD.size + length].decode("ascii"))
    except UnicodeDecodeError:
        raise Garbled("the token is no ASCII") from None
