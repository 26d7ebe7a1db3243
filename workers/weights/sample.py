"""A module to try it with: layers and columns as asked for, split by TP and PP, filled from a number. Imports torch."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module

import torch
from torch import nn

from workers.transfer.layout import Place as Shard

from .errors import WeightsError

Factory = Callable[[Shard], nn.Module]
"""Makes what one rank holds."""


class SampleShard(nn.Module):
    """`layers` matrices of `hidden` × `hidden` with a bias each: TP splits the rows, PP the layers."""

    def __init__(
        self,
        shard: Shard,
        *,
        layers: int = 4,
        hidden: int = 512,
        dtype: torch.dtype = torch.bfloat16,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        if hidden % shard.tp_size or layers % shard.pp_size:
            raise WeightsError(
                f"{layers} layers of {hidden} cannot be split over TP {shard.tp_size}, PP {shard.pp_size}"
            )
        own, rows = layers // shard.pp_size, hidden // shard.tp_size
        self.shard = shard
        self.layers = nn.ModuleDict(
            {
                str(shard.pp_rank * own + n): nn.Linear(hidden, rows, dtype=dtype, device=device).requires_grad_(False)
                for n in range(own)
            }
        )

    def fill(self, number: int) -> SampleShard:
        """The weights that follow from `number`, other ones on every rank."""
        for name, parameter in self.named_parameters():
            seed = zlib.crc32(f"{number} {name} {self.shard.tp_rank}".encode())
            parameter.data.normal_(generator=torch.Generator().manual_seed(seed))
        return self


def factory_at(text: str) -> Factory:
    """`package.module:function`, which takes a `workers.transfer.layout.Place` and gives a `torch.nn.Module`. Raises
    WeightsError."""
    module, colon, name = text.partition(":")
    try:
        made = getattr(import_module(module), name) if colon else None
    except (ImportError, AttributeError, ValueError) as problem:
        raise WeightsError(f"{text} cannot be imported: {problem}") from None
    if not callable(made):
        raise WeightsError(f"{text} is no function: give package.module:function")
    return made
