"""The tensors of one published dictionary, a page at a time: read in pieces, so that no size of it fills the memory."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from controlplane.domain.errors import Refused

PAGE = 100
PIECE = 256 * 1024
OWN, HEAD_BYTES = b"pd-weights/", 8192
"""Entries of `workers.weights` about its publication stand before those of its tensors, in so many bytes."""
ORIGIN = re.compile(rb"pd-weights/\d+/from/\d+/([^/]+)/\d+")
# As the bootstrap stores it: compact JSON, every value three whole numbers.
ENTRY = re.compile(rb'[{,]"([^"\\]*(?:\\.[^"\\]*)*)":\[(\d+),(\d+),(\d+)\]')


@dataclass(frozen=True, slots=True)
class TensorRow:
    """`place` counts from 0, in the order in which the worker sent them."""

    place: int
    name: str
    address: int
    elements: int
    element_bytes: int

    @property
    def bytes(self) -> int:
        return self.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class TensorPage:
    """`next` asks for the rest, None at the end. With a text that is looked for, only names that contain it count."""

    rows: tuple[TensorRow, ...]
    next: int | None


def read_place(text: str) -> int:
    """Where to go on. Raises Refused (malformed)."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Refused("after must be what an earlier page gave as next", code="malformed")
    return int(text)


def page(compressed: bytes, *, start: int = 0, text: str = "", limit: int = PAGE) -> TensorPage:
    """Tensors from `start` on. Takes about 10 ms a MB that stands before the end of the page.

    Raises Refused (conflict) when what is stored is damaged.

    >>> stored = zlib.compress(b'{"a.w":[4096,8,2],"b.w":[8192,0,4]}')
    >>> [row.name for row in page(stored).rows], page(stored, limit=1).next
    (['a.w', 'b.w'], 1)
    """
    found: list[TensorRow] = []
    wanted = text.encode().lower()
    for place, entry in enumerate(_entries(compressed)):
        if place < start or (wanted and wanted not in entry[1].lower() and not _says(entry[1], text)):
            continue
        if len(found) == limit:
            return TensorPage(tuple(found), place)
        found.append(TensorRow(place, _name(entry[1]), int(entry[2]), int(entry[3]), int(entry[4])))
    return TensorPage(tuple(found), None)


def origins(compressed: bytes) -> tuple[str, ...]:
    """From whom a publisher says that it had these weights, the nearest first. The first 4 KiB of what is stored are enough.

    >>> head = b'{"pd-weights/1/content/5d":[0,0,1],"pd-weights/1/from/1/seed-a/0":[0,0,1],"w":[4096,8,2]}'
    >>> origins(zlib.compress(head)), origins(zlib.compress(b'{"w":[4096,8,2]}'))
    (('seed-a',), ())
    """
    try:
        head = zlib.decompressobj().decompress(compressed, HEAD_BYTES)
    except zlib.error:
        return ()
    found = []
    for entry in ENTRY.finditer(head):
        if not entry[1].startswith(OWN):
            break
        if said := ORIGIN.fullmatch(entry[1]):
            found.append(said[1].decode("utf-8", "replace"))
    return tuple(found)


def _entries(compressed: bytes) -> Iterator[re.Match[bytes]]:
    machine = zlib.decompressobj()
    left, rest = b"", compressed
    while True:
        try:
            piece = machine.decompress(rest, PIECE)
        except zlib.error as problem:
            raise Refused(
                f"what is stored of this dictionary cannot be read ({problem}); have its worker publish it again",
                code="conflict",
            ) from problem
        rest = machine.unconsumed_tail
        if not piece and not rest:
            return
        text = left + piece
        done = 0
        while entry := ENTRY.match(text, done):
            done = entry.end()
            yield entry
        left = text[done:]


def _name(raw: bytes) -> str:
    return str(msgspec.json.decode(b'"' + raw + b'"'))


def _says(raw: bytes, text: str) -> bool:
    """A name that is escaped where it is stored."""
    return b"\\" in raw and text.lower() in _name(raw).lower()
