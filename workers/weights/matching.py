"""Whether what a seed publishes belongs into a module, tensor by tensor; where not, a sentence that names the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.sdk.engine_info import Tensor
from workers.transfer.layout import Place as Shard

from .errors import Unfit
from .manifest import PREFIX, Manifest


@dataclass(frozen=True, slots=True)
class Held:
    """One tensor of a module here. `address` is of this process."""

    name: str
    address: int
    shape: tuple[int, ...]
    dtype: str
    numel: int
    element_size: int

    @property
    def bytes(self) -> int:
        return self.numel * self.element_size


def check_told(held: Sequence[Held], told: Mapping[str, Tensor]) -> None:
    """By the numbers that every seed publishes. Raises Unfit.

    >>> check_told([Held("w", 4096, (2, 3), "float16", 6, 2)], {"w": (1, 6, 4)})
    Traceback (most recent call last):
    workers.weights.errors.Unfit: w has 6 elements of 4 bytes there, 6 of 2 here: it is another model, or split in another way
    """
    missing = [each.name for each in held if each.name not in told]
    if missing:
        raise Unfit(
            f"it does not publish {_some(missing)}, which this module has: it is another model, or another rank"
        )
    for each in held:
        _, numel, size = told[each.name]
        if (numel, size) != (each.numel, each.element_size):
            raise Unfit(
                f"{each.name} has {numel} elements of {size} bytes there, {each.numel} of {each.element_size} here:"
                " it is another model, or split in another way"
            )


def check_manifest(held: Sequence[Held], told: Mapping[str, Tensor], manifest: Manifest, shard: Shard) -> None:
    """By what a seed of ours promises on top: rank, shapes, dtypes, and that there is nothing more. Raises Unfit."""
    there = (manifest.tp_rank, manifest.tp_size, manifest.pp_rank, manifest.pp_size)
    here = (shard.tp_rank, shard.tp_size, shard.pp_rank, shard.pp_size)
    if there != here:
        raise Unfit(f"its weights are of {_place(there)}, these of {_place(here)}: both must be split alike")
    for each in held:
        promised = manifest.tensors.get(each.name)
        if promised is None:
            raise Unfit(f"its manifest does not name {each.name}, though its dictionary does")
        if promised.dtype != each.dtype:
            raise Unfit(f"{each.name} is {promised.dtype} there, {each.dtype} here")
        if promised.shape != each.shape:
            raise Unfit(f"{each.name} has the shape {promised.shape} there, {each.shape} here")
    names = {each.name for each in held}
    more = [name for name in told if name not in names and not name.startswith(PREFIX)]
    if more:
        raise Unfit(f"it has {_some(more)}, which this module lacks: it is another model")


def _place(place: tuple[int, ...]) -> str:
    tp, tps, pp, pps = place
    return f"rank {tp} of TP {tps}, stage {pp} of PP {pps}"


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
