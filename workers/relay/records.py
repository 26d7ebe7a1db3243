"""What the relay writes down, and its form on disk: one line a record, a checksum in front, JSON behind."""

from __future__ import annotations

import zlib

import msgspec


class Put(msgspec.Struct, tag="put", omit_defaults=True):
    """A registration that was acknowledged, as it was sent. `process` is the rank's own, where it was seen; `pending`: the
    control plane has not taken it yet."""

    n: int
    body: str
    at: float
    token: str | None = None
    process: str = ""
    source: str = ""
    pending: bool = False


class Taken(msgspec.Struct, tag="taken", omit_defaults=True):
    """Registration `n` is settled with the control plane: it took it, or refused it with a sentence."""

    n: int
    refused: str = ""


class Minted(msgspec.Struct, tag="minted"):
    """The token of one launch of an engine, by what tells that launch from others on this host."""

    identity: str
    token: str


class Dropped(msgspec.Struct, tag="dropped"):
    """A launch whose last registration was `n` is held no more."""

    n: int


class Room(msgspec.Struct, tag="room"):
    """A room that was bound; `at` in seconds since the epoch."""

    n: int
    room: int
    dp: int
    at: float


class RoomsTaken(msgspec.Struct, tag="rooms-taken"):
    """The control plane has every room up to and with `n`."""

    n: int


class Told(msgspec.Struct, tag="told"):
    """What the control plane serves, whole: its topology answer, and `[dp, cp, tp, pp, host, port]` of every slot."""

    at: float
    topology: str
    slots: list[tuple[int, int, int, int, str, int]]
    token: str | None = None


class Owed(msgspec.Struct, tag="owed", omit_defaults=True):
    """Since when /health has been 503 for those who poll it here; None: it is not any more."""

    since: float | None = None


Record = Put | Taken | Minted | Dropped | Room | RoomsTaken | Told | Owed

_DECODER = msgspec.json.Decoder(Record)


def line(record: Record) -> bytes:
    """
    >>> line(Taken(3))
    b'f194fe37 {"type":"taken","n":3}\\n'
    """
    told = msgspec.json.encode(record)
    return b"%08x %b\n" % (zlib.crc32(told), told)


def read(raw: bytes) -> Record | None:
    """The record of one whole line, without its line end; None when it is not what was written.

    >>> read(line(Taken(3)).rstrip()), read(b'f194fe37 {"type":"taken","n":4}')
    (Taken(n=3, refused=''), None)
    """
    checksum, space, told = raw[:8], raw[8:9], raw[9:]
    if space != b" " or len(checksum) != 8:
        return None
    try:
        if int(checksum, 16) != zlib.crc32(told):
            return None
        return _DECODER.decode(told)
    except (ValueError, msgspec.MsgspecError):
        return None
