"""A large fleet in the tables at once, as many quiet days would have left it: complete launches, every rank up."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from itertools import islice

from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.models import Instance, Launch, Lease, Rank
from tests.controlplane.queries.world import FACTS_OF_ALL

PIECE = 2000


def many(count: int, topology: Topology, *, role: str = "prefill", prefix: str = "", now: float | None = None) -> None:
    """`count` instances `prefix000`… of this topology. The lease is held by "test pid 1"."""
    at = time.time() if now is None else now
    prefix = prefix or f"{role}-"
    Lease.objects.using(FACTS).filter(name="bootstrap").update(token=1, holder="test pid 1", expires_at=at)
    instances = Instance.objects.using(FACTS).bulk_create(
        Instance(name=f"{prefix}{number:04d}", role=role, created_at=at - 3600, next_launch=2)
        for number in range(count)
    )
    facts = json.dumps(asdict(FACTS_OF_ALL))
    sizes = {"dp": topology.dp, "cp": topology.cp, "tp": topology.tp, "pp": topology.pp}
    Launch.objects.using(FACTS).bulk_create(
        Launch(
            instance_id=one.pk,
            number=1,
            state="current",
            facts=facts,
            opened_at=at - 3600,
            completed_at=at - 3590,
            **sizes,
        )
        for one in instances
    )
    slots = list(topology.slots())
    ranks = (
        Rank(
            instance_id=one.pk,
            launch=1,
            **slot._asdict(),
            ip=f"10.{place // 250}.{place % 250}.1",
            port=30_000 + index,
            first_at=at - 3600,
            seen_at=at - 60,
            contact="up",
            greeted=True,
            verified_term=1,
        )
        for place, one in enumerate(instances)
        for index, slot in enumerate(slots)
    )
    # A transaction each: between two statements of one, a writer may think for two seconds, on whatever machine.
    while piece := list(islice(ranks, PIECE)):
        Rank.objects.using(FACTS).bulk_create(piece)
