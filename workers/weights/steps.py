"""The order in which tensors are fetched: in steps of bounded size, each of which says which tensors are whole after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from workers.sdk.engine_info import Tensor
from workers.transfer.blocks import MAX_BATCH, Block, joined, total

from .matching import Held

STEP_BYTES = 32 * 2**20
"""One call of an engine has 8 s: a seed that gives less than 4 MB a second is left for another."""


@dataclass(frozen=True, slots=True)
class Step:
    blocks: list[Block]
    whole: tuple[Held, ...]

    @property
    def bytes(self) -> int:
        return total(self.blocks)


def steps(held: Iterable[Held], told: Mapping[str, Tensor], *, most_bytes: int = STEP_BYTES) -> Iterator[Step]:
    """In the order of memory here, so that neighbours there, too, are fetched in one piece.

    >>> a, b = Held("a", 100, (5,), "int8", 5, 1), Held("b", 105, (4,), "int8", 4, 1)
    >>> [(step.blocks, [each.name for each in step.whole])
    ...     for step in steps([b, a], {"a": (900, 5, 1), "b": (905, 4, 1)}, most_bytes=6)]
    [([(100, 900, 6)], ['a']), ([(106, 906, 3)], ['b'])]
    """
    blocks: list[Block] = []
    whole: list[Held] = []
    room = most_bytes
    for each in sorted(held, key=lambda one: one.address):
        remote, at = told[each.name][0], 0
        while at < each.bytes:
            length = min(each.bytes - at, room)
            blocks.append((each.address + at, remote + at, length))
            at, room = at + length, room - length
            if at == each.bytes:
                whole.append(each)
            if not room or len(blocks) == MAX_BATCH:
                yield Step(joined(blocks), tuple(whole))
                blocks, whole, room = [], [], most_bytes
        if not each.bytes:
            whole.append(each)
    if blocks or whole:
        yield Step(joined(blocks), tuple(whole))
