"""Fields of SGLang's frames: ASCII numbers, packed integers, and lists of lists of them, all with limits.

Source: `pack_int_lists` and `pack_list_of_buffers` in sglang/srt/disaggregation/common/utils.py. SGLang trusts what
arrives; here every length is checked before anything is unpacked, and a fault is a sentence that names the field.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from workers.messaging.errors import BadFrames

MAX_DIGITS = 20
MAX_TEXT = 300
WIDTHS = {"i": 4, "I": 4, "Q": 8}

Ints = tuple[int, ...]
IntLists = tuple[Ints, ...]


def text(frame: bytes, field: str, *, longest: int = MAX_TEXT) -> str:
    """Printable ASCII of at most `longest` characters."""
    if len(frame) > longest:
        raise BadFrames(f"{field} has {len(frame)} bytes, more than {longest}")
    if not frame.isascii() or not (found := frame.decode("ascii")).isprintable():
        raise BadFrames(f"{field} is not printable ASCII")
    return found


def number(frame: bytes, field: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """A decimal number without sign or spaces, as `str(int)` writes it.

    >>> number(b"41000", "port")
    41000
    """
    if not (0 < len(frame) <= MAX_DIGITS and frame.isdigit()):
        raise BadFrames(f"{field} is not a whole number in digits")
    found = int(frame)
    if not least <= found <= most:
        raise BadFrames(f"{field} is {found}, outside {least} to {most}")
    return found


def optional_number(frames: Sequence[bytes], at: int, field: str, *, missing: int) -> int:
    """As `number`, for a field that older peers leave out or empty."""
    return number(frames[at], field) if len(frames) > at and frames[at] else missing


def ints(frame: bytes, width: str, field: str, *, most: int) -> Ints:
    """Packed little-endian integers: `i` and `I` of 4 bytes, `Q` of 8; at most `most` of them.

    >>> ints(pack_ints([1, 2], "Q"), "Q", "pointers", most=9)
    (1, 2)
    """
    count, rest = divmod(len(frame), WIDTHS[width])
    if rest:
        raise BadFrames(f"{field} has {len(frame)} bytes, no multiple of {WIDTHS[width]}")
    if count > most:
        raise BadFrames(f"{field} has {count} entries, more than {most}")
    return struct.unpack(f"<{count}{width}", frame)


def optional_ints(frames: Sequence[bytes], at: int, width: str, field: str, *, most: int) -> Ints:
    return ints(frames[at], width, field, most=most) if len(frames) > at else ()


def int_lists(frame: bytes, width: str, field: str, *, most: int) -> IntLists:
    """Lists of integers behind one header of their lengths in bytes; at most `most` lists and integers in all."""
    if not frame:
        return ()
    if len(frame) < 4:
        raise BadFrames(f"{field} is cut off in its header")
    (count,) = struct.unpack_from("<I", frame)
    if count > most or len(frame) < 4 + 4 * count:
        raise BadFrames(f"{field} announces {count} lists and does not hold their lengths")
    lengths = struct.unpack_from(f"<{count}I", frame, 4)
    if sum(lengths) != len(frame) - 4 - 4 * count:
        raise BadFrames(f"{field} announces {sum(lengths)} bytes and holds {len(frame) - 4 - 4 * count}")
    found, at = [], 4 + 4 * count
    for place, length in enumerate(lengths):
        found.append(ints(frame[at : at + length], width, f"list {place} of {field}", most=most))
        at += length
    return tuple(found)


def optional_lists(frames: Sequence[bytes], at: int, width: str, field: str, *, most: int) -> IntLists:
    return int_lists(frames[at], width, field, most=most) if len(frames) > at else ()


def pack_ints(values: Sequence[int], width: str) -> bytes:
    return struct.pack(f"<{len(values)}{width}", *values)


def pack_int_lists(lists: Sequence[Sequence[int]], width: str) -> bytes:
    """
    >>> int_lists(pack_int_lists([[1], []], "i"), "i", "state", most=9)
    ((1,), ())
    """
    if not lists:
        return b""
    packed = [pack_ints(each, width) for each in lists]
    return struct.pack(f"<{len(packed) + 1}I", len(packed), *map(len, packed)) + b"".join(packed)


def ascii_number(value: int) -> bytes:
    return str(value).encode("ascii")
