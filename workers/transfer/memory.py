"""Memory that engines move: regions by address, and segments that a child process can map too.

A segment is anonymous (memfd, or a file without a name): the kernel frees it with the last process that maps it, whatever way
that process ends, so a crash leaves nothing behind in /dev/shm.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Protocol

from workers.transfer.errors import BadBlocks, TransferError


class Region(Protocol):
    """Registered as a whole. `fileno` is None when the memory belongs to this process alone (a tensor, GPU memory)."""

    @property
    def address(self) -> int: ...
    @property
    def length(self) -> int: ...
    def fileno(self) -> int | None: ...


class Borrowed:
    """Memory of somebody else, say of a tensor: keep its owner alive while it is registered.

    `owner` is kept here for that reason.
    """

    def __init__(self, address: int, length: int, owner: object = None) -> None:
        if address <= 0 or length <= 0:
            raise TransferError(f"a region needs an address and a length, not {address} and {length}")
        self.address, self.length, self.owner = address, length, owner

    def fileno(self) -> int | None:
        return None


class Segment:
    """`length` bytes of zeros, shared with the processes that are given its file descriptor."""

    def __init__(self, length: int, *, fd: int | None = None) -> None:
        if length <= 0:
            raise TransferError(f"a segment has at least one byte, not {length}")
        self.length = length
        self._fd = _anonymous(length) if fd is None else fd
        self.buffer = mmap.mmap(self._fd, length)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))

    def fileno(self) -> int | None:
        return self._fd

    def view(self, offset: int = 0, length: int | None = None) -> memoryview:
        """Bytes of the segment, writable, without a copy. Release it before `close`."""
        end = self.length if length is None else offset + length
        if not 0 <= offset <= end <= self.length:
            raise BadBlocks(f"bytes {offset} to {end} are outside a segment of {self.length}")
        return memoryview(self.buffer)[offset:end]

    def close(self) -> None:
        """Unmap it here. Raises TransferError while tensors or views on it are alive."""
        if self._fd < 0:
            return
        try:
            self.buffer.close()
        except BufferError:
            raise TransferError("the segment is still in use: drop its tensors and views first") from None
        os.close(self._fd)
        self._fd = -1


def view_at(address: int, length: int) -> memoryview:
    """Bytes of this process at an address. The caller knows that they are mapped and stay so."""
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


class Regions:
    """Which memory is registered, so that an address from elsewhere is checked before it is touched."""

    def __init__(self) -> None:
        self._known: list[tuple[int, int, Region]] = []

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter([region for _, _, region in self._known])

    def add(self, region: Region, base: int | None = None) -> None:
        """`base`: the address by which others name it, when that is not its own."""
        start = region.address if base is None else base
        if any(start < end and begin < start + region.length for begin, end, _ in self._known):
            raise BadBlocks(f"the region at {start:#x} overlaps one that is registered")
        self._known = sorted([*self._known, (start, start + region.length, region)], key=lambda known: known[0])

    def drop(self, region: Region) -> None:
        if not any(known is region for _, _, known in self._known):
            raise BadBlocks(f"the region at {region.address:#x} is not registered")
        self._known = [each for each in self._known if each[2] is not region]

    def clear(self) -> None:
        self._known = []

    def base(self, region: Region) -> int:
        for begin, _, known in self._known:
            if known is region:
                return begin
        raise BadBlocks(f"the region at {region.address:#x} is not registered")

    def translate(self, address: int, length: int, to: Regions | None = None) -> int:
        """The own address of a range that others name by its base, or its base in `to`; raises BadBlocks when no one region
        holds all of it."""
        for begin, end, region in self._known:
            if begin <= address < end:
                if length <= 0 or address + length > end:
                    break
                return (to.base(region) if to is not None else region.address) + address - begin
        raise BadBlocks(f"{length} bytes at {address:#x} are not within registered memory")


def check_all(regions: Regions, ranges: Sequence[tuple[int, int]]) -> None:
    for address, length in ranges:
        regions.translate(address, length)


def _anonymous(length: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pd-kv", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, length)
    return fd
