"""The real process group: torch.distributed over gloo, on CPU tensors of a fixed size. The only module that imports torch."""

from __future__ import annotations

import datetime

import torch
import torch.distributed as dist

from .errors import NotAgreed

_made: dict[object, dist.ProcessGroup] = {}


class Gloo:
    """A gloo group of all ranks."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group

    @property
    def rank(self) -> int:
        return dist.get_rank()

    @property
    def size(self) -> int:
        return dist.get_world_size()

    def broadcast(self, said: bytes, *, within: float) -> bytes:
        """Raises TimeoutError, or OSError when a rank is lost."""
        frame = torch.frombuffer(bytearray(said), dtype=torch.uint8).clone()
        try:
            work = dist.broadcast(frame, src=0, group=self._group, async_op=True)
            work.wait(datetime.timedelta(seconds=within))
        except RuntimeError as problem:
            told = str(problem).splitlines()[0]
            if "imed out" in told or "imeout" in told:
                raise TimeoutError(told) from None
            raise OSError(told) from None
        return frame.numpy().tobytes()


def default_group() -> Gloo | None:
    """The default process group when it can carry CPU tensors, else one of all ranks that can; None: not initialised.

    Every rank must call it: where the default group is of GPUs (NCCL), a gloo group is made, by all of them.
    """
    if not dist.is_available() or not dist.is_initialized():
        return None
    world = dist.group.WORLD
    if world is None:
        return None
    if "gloo" in str(dist.get_backend_config()).lower():
        return Gloo(world)
    if not dist.is_gloo_available():
        raise NotAgreed("this torch has no gloo, over which the leader's bootstrap port is told")
    made = _made.get(world)
    if made is None:
        made = _made[world] = dist.new_group(backend="gloo")
    return Gloo(made)
