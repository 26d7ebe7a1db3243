"""A prefill of real ranks that an operator takes out of use, restarts and brings back."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from sglang.srt.disaggregation.common import conn

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


def register_and_give_up(port: int, hurry: float) -> Iterator[dict[str, Any]]:
    """A rank that is registered, and then tries in vain to register again; a second between two tries lasts `hurry`."""
    prefill = Prefill(Shape(), port).register_all()
    yield {"ports": _ports(prefill)}
    patient = conn.time
    conn.time = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: time.sleep(hurry * seconds))
    begun = time.monotonic()
    try:
        for rank in prefill.ranks.values():
            with harness.published(disaggregation_bootstrap_port=port):
                rank.register_to_bootstrap()
    finally:
        conn.time = patient
    yield {"tried_for": time.monotonic() - begun}


def register_one_by_one(port: int, shape: dict[str, int], instance: str) -> Iterator[dict[str, Any]]:
    """A rank with each step; then those of a second launch beside it; then the first launch dies, then the second."""
    first, second = (Prefill(Shape(**shape), port, instance) for _ in range(2))
    for launch in (first, second):
        for slot in launch.shape.slots:
            launch.register(slot)
            yield {"ports": _ports(launch)}
    for launch in (first, second):
        launch.die()
        yield {}


def _ports(prefill: Prefill) -> list[int]:
    return sorted(rank.rank_port for rank in prefill.ranks.values())
