"""A module's parameters in memory that engines can move. Imports torch.

By default all of them are moved into one shared segment, which an engine's child process maps too. A file can be that segment:
what a pull brought is then still there after the process was killed, and the next one fetches only what is missing.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from workers.transfer.memory import Borrowed, Region, Segment
from workers.transfer.pool import borrowed

from .digest import digest_of
from .errors import WeightsError
from .matching import Held

ALIGNMENT = 64
LOCK_SECONDS = 5.0


class Holding:
    """`held`: the tensors by name, as SGLang names them (`named_parameters`; tied ones once). `found`: a file was there before,
    whose bytes may be those that are wanted."""

    def __init__(self, module: nn.Module, regions: list[Region], tensors: dict[str, torch.Tensor], found: bool) -> None:
        self.module, self.regions, self.found = module, regions, found
        self._tensors = tensors
        self.held = {name: _held(name, tensor) for name, tensor in tensors.items()}

    @classmethod
    def of(cls, module: nn.Module, *, in_place: bool = False) -> Holding:
        """Of a module whose weights are there. `in_place`: leave them where they are (GPU memory), which only engines in this
        process can move (`MooncakeEngine`, `zmq` for the CPU)."""
        if in_place:
            tensors = _parameters(module)
            regions: list[Region] = [_borrowed(name, each) for name, each in tensors.items() if each.numel()]
            return cls(module, regions, tensors, found=False)
        return _in_segment(module, None, keep=True)

    @classmethod
    def into(cls, module: nn.Module, *, file: Path | None = None) -> Holding:
        """For weights that are to be pulled: what the parameters hold now is lost. The module may be on the meta device; one
        on a GPU is pulled into in place, with `of`."""
        return _in_segment(module, file, keep=False)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.held.values())

    def digest(self, name: str) -> str:
        return digest_of(self._tensors[name])

    def close(self) -> None:
        """Free the memory: the module's parameters are empty afterwards. Close the engine first."""
        self._tensors = {}
        for region in self.regions:
            if isinstance(region, Segment):
                for parameter in self.module.parameters():
                    parameter.data = torch.empty(0, dtype=parameter.dtype)
                region.close()
        self.regions = []


def _in_segment(module: nn.Module, file: Path | None, *, keep: bool) -> Holding:
    parameters = _parameters(module)
    for name, parameter in parameters.items():
        if parameter.device.type not in (("cpu",) if keep else ("cpu", "meta")):
            raise WeightsError(
                f"{name} is on {parameter.device}: only weights on the CPU are moved; hold others in place"
            )
    offsets: dict[str, int] = {}
    end = 0
    for name, parameter in parameters.items():
        offsets[name] = end
        end += -(-parameter.numel() * parameter.element_size() // ALIGNMENT) * ALIGNMENT
    if not end:
        raise WeightsError("the module has no parameters with elements: there is nothing to share")
    found, fd = _file(file, end) if file is not None else (False, None)
    segment = Segment(end, fd=fd)
    moved: dict[int, nn.Parameter] = {}
    for name, parameter in parameters.items():
        count = parameter.numel()
        new = torch.empty(parameter.shape, dtype=parameter.dtype)
        if count:
            flat = torch.frombuffer(segment.buffer, dtype=parameter.dtype, count=count, offset=offsets[name])
            new = flat.view(parameter.shape)
        if keep:
            new.copy_(parameter.detach())
        if parameter.device.type == "cpu":
            parameter.data = new
        else:
            moved[id(parameter)] = nn.Parameter(new, requires_grad=parameter.requires_grad)
    for owner, key, parameter in _places(module):
        if id(parameter) in moved:
            owner._parameters[key] = moved[id(parameter)]
    return Holding(module, [segment], _parameters(module), found)


def _parameters(module: nn.Module) -> dict[str, torch.Tensor]:
    """Raises WeightsError for two that share memory without being one: each would be moved apart."""
    found: dict[str, torch.Tensor] = dict(module.named_parameters())
    spans = sorted(
        (each.data_ptr(), each.data_ptr() + each.numel() * each.element_size(), name)
        for name, each in found.items()
        if each.device.type != "meta" and each.numel() and each.is_contiguous()
    )
    for (_, end, name), (start, _, other) in itertools.pairwise(spans):
        if start < end:
            raise WeightsError(f"{name} and {other} share memory: make them one parameter, or two of their own")
    return found


def _places(module: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    for owner in module.modules():
        for key, parameter in list(owner._parameters.items()):
            if parameter is not None:
                yield owner, key, parameter


def _held(name: str, tensor: torch.Tensor) -> Held:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Held(name, tensor.data_ptr(), tuple(tensor.shape), dtype, tensor.numel(), tensor.element_size())


def _borrowed(name: str, tensor: torch.Tensor) -> Borrowed:
    if tensor.device.type == "meta" or not tensor.is_contiguous():
        raise WeightsError(f"{name} is not in one piece of memory; a seed needs it there")
    return borrowed(tensor.detach())


def _file(path: Path, length: int) -> tuple[bool, int]:
    """Whether it was there with this length, and its descriptor, which the segment owns."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise WeightsError(f"{path} cannot be used to keep weights: {problem.strerror}") from None
    _lock(path, fd)
    size = os.fstat(fd).st_size
    if size not in (0, length):
        os.close(fd)
        raise WeightsError(f"{path} has {size} bytes, these weights {length}: name a file of their own, or delete it")
    try:
        # A file with holes would end this process by a signal (SIGBUS) once the disk is full.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, length)
        os.ftruncate(fd, length)
    except OSError as problem:
        if not size:
            os.ftruncate(fd, 0)
        os.close(fd)
        raise WeightsError(
            f"{path} has no room for {length} bytes of weights ({problem.strerror}): name a folder that has, or none"
        ) from None
    return size == length, fd


def _lock(path: Path, fd: int) -> None:
    """Two processes that map one file would change each other's weights. One that was killed lets go in a moment."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(fd)
                raise WeightsError(f"another process holds its weights in {path}: give each its own folder") from None
            time.sleep(0.1)
        except OSError:
            # Some network file systems have no locks.
            return
