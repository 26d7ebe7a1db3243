"""Weights from seeds to replicas: published through the control plane, pulled by a transfer engine, proven by digest.

A **seed** holds a torch module's parameters in memory that peers can read, and publishes its session and `{name: [address,
elements, bytes of each]}`, as SGLang's seeds do (so SGLang's loader can load from it). A manifest beside it says dtypes, shapes
and digests. A **pull** finds seeds through the control plane, or at SGLang's own servers, and fetches into its own module.

    from workers.sdk import Client, ControlPlane
    from workers.transfer import Place as Shard, open_engine
    from workers.weights.holding import Holding                        # these three import torch
    from workers.weights.pull import Pull
    from workers.weights.seed import Seed

    plane, shard = ControlPlane.at("cp.rack:8998", instance="seed-a"), Shard(tp_rank=0, tp_size=2)
    seed = Seed(Holding.of(module), shard, open_engine("mooncake", "10.0.0.7"))
    with Client(plane) as client:
        seed.publish(client); ...; seed.tend(client)                   # now and then

    pull = Pull(Holding.into(other), shard, open_engine("mooncake", "10.0.0.8"), plane, ["seed-a", "seed-b"], receiver="r-3")
    loaded = pull.run(within=600)                                      # or NoSeed: a sentence; run it again to go on
    follower = Seed(pull_holding, shard, engine, chain=loaded.chain, promises=loaded.manifest.tensors)

Seed and replica must be split alike (TP, PP), as for SGLang. A tensor counts when its digest is the promised one, whoever
sent it: a seed that dies is replaced by the next, and nothing is fetched twice. Publications are read anew for each try, the
manifest is bound to the publication by its SHA-256, so a session of an earlier start is never taken for a seed. Seeds without
a manifest (SGLang's engines) are verified by number and size of elements only, and `Loaded.verified` says so.
"""

from workers.transfer.layout import Place as Shard

from .errors import Damaged, Moved, NoSeed, Unfit, WeightsError
from .manifest import Manifest, Origin, Promise, world_rank
from .progress import Progress

__all__ = [
    "Damaged",
    "Manifest",
    "Moved",
    "NoSeed",
    "Origin",
    "Progress",
    "Promise",
    "Shard",
    "Unfit",
    "WeightsError",
    "world_rank",
]
