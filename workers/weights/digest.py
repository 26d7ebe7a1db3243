"""A digest of a tensor's bytes that keeps up with the network. Imports torch.

SHA-256 alone takes half a second a gigabyte, as long as moving it does. So rows of 8 KiB are first made into 16 bytes each, by
two sums with fixed multipliers modulo 2^64, one over the 64-bit words and one over their upper halves (a flip of the highest bit
reaches only the highest bit of the first sum, and two of them would cancel); SHA-256 is over these, what is left behind the
last whole row, and the length. It finds bytes that are damaged, mixed up, or of another process. It is no protection against a
seed that lies: nothing on this wire is.
"""

from __future__ import annotations

import hashlib

import torch

from workers.transfer.memory import view_at

WORDS = 1024
ROW = 8 * WORDS
ROWS_AT_ONCE = 64


def _multipliers(name: str) -> torch.Tensor:
    stream = b"".join(hashlib.sha256(f"{name} {n}".encode()).digest() for n in range(WORDS // 4))
    return torch.frombuffer(bytearray(stream), dtype=torch.int64) | 1


_WORDS, _HALVES = _multipliers("words"), _multipliers("upper halves")


def digest_of(tensor: torch.Tensor) -> str:
    """32 hex digits, equal when the bytes are (on machines of one byte order). Tensors elsewhere are copied to the CPU for it."""
    here = tensor.detach()
    if here.device.type != "cpu" or not here.is_contiguous():
        here = here.cpu().contiguous()
    return digest_at(here.data_ptr(), here.numel() * here.element_size()) if here.numel() else digest_at(0, 0)


def digest_at(address: int, length: int) -> str:
    """Of memory of this process, which the caller keeps mapped."""
    sums = hashlib.sha256(length.to_bytes(8, "little"))
    whole = length - length % ROW if address % 8 == 0 else 0
    if whole:
        rows = torch.frombuffer(view_at(address, whole), dtype=torch.int64).view(-1, WORDS)
        for part in rows.split(ROWS_AT_ONCE):
            sums.update(_row_sums(part))
    elif length >= ROW:
        return digest_of(torch.frombuffer(bytearray(view_at(address, length)), dtype=torch.uint8))
    if length > whole:
        sums.update(view_at(address + whole, length - whole))
    return sums.hexdigest()[:32]


def _row_sums(rows: torch.Tensor) -> bytes:
    pair = torch.stack([torch.mv(rows, _WORDS), torch.mv(rows >> 32, _HALVES)])
    return bytes(view_at(pair.data_ptr(), 16 * len(rows)))
