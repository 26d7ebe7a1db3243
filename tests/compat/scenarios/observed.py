"""Unmodified prefills that register at SGLang's own bootstrap server, as they do where nobody knows of a control plane."""

from collections.abc import Iterator
from typing import Any

from tests.compat import harness
from tests.compat.harness import Prefill, Shape


def register_restart_and_die(port: int, shape: dict[str, int], again: dict[str, int]) -> Iterator[dict[str, Any]]:
    """With each step: all ranks but the last; the last; they die; another topology registers; that dies too."""
    first = Prefill(Shape(**shape), port)
    *most, last = first.shape.slots
    for slot in most:
        first.register(slot)
    yield {"registered": len(most)}
    first.register(last)
    yield _addresses(first)
    first.die()
    yield {}
    second = Prefill(Shape(**again), port).register_all()
    yield _addresses(second)
    second.die()
    yield {}


def count_one_rank_twice(port: int) -> Iterator[dict[str, Any]]:
    """SGLang's server counts calls: it opens with one of two ranks; with the next step the other one is there."""
    prefill = Prefill(Shape(tp=2), port)
    rank = prefill.register((0, 0, 0, 0))
    with harness.published(disaggregation_bootstrap_port=port):
        rank.register_to_bootstrap()
    yield _addresses(prefill)
    prefill.register((0, 0, 1, 0))
    yield _addresses(prefill)


def _addresses(prefill: Prefill) -> dict[str, Any]:
    return {".".join(map(str, slot)): rank.rank_port for slot, rank in prefill.ranks.items()}
