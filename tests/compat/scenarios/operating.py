"""A prefill of real ranks that an operator takes out of use, restarts and brings back."""

from collections.abc import Iterator
from typing import Any

from tests.compat import harness
from tests.compat.harness import Prefill, Shape


def register_and_restart(port: int, shape: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Registers; then with each step: dies, registers as a new launch, dies for good."""
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(**shape), port).register_all()
    decode = harness.decode_rank(tp=prefill.shape.tp, rank=0)
    yield {"ready": harness.is_ready(decode, address), "ports": _ports(prefill)}
    prefill.die()
    again = Prefill(Shape(**shape), port).register_all()
    yield {"ports": _ports(again)}
    again.die()
    yield {}


def _ports(prefill: Prefill) -> list[int]:
    return sorted(rank.rank_port for rank in prefill.ranks.values())
