"""`python -m tests.soak.pullers ENGINE_INFO PULLS NAME SEED…`: replicas that pull weights at once, when a line comes on stdin."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from tests.soak.measure import shown
from workers.sdk import ControlPlane
from workers.transfer.engine import open_engine
from workers.weights import Shard
from workers.weights.holding import Holding
from workers.weights.pull import Pull
from workers.weights.sample import SampleShard

MODEL = {"layers": 1500, "hidden": 32}
"""3,000 tensors, 3 MB."""


def main() -> None:
    engine_info, count, name, *seeds = sys.argv[1:]
    torch.set_num_threads(1)
    plane = ControlPlane.at(engine_info, engine=engine_info)
    engine = open_engine("mooncake", "127.0.0.1")
    pulls = [
        Pull(
            Holding.into(SampleShard(Shard(), device="meta", **MODEL)),
            Shard(),
            engine,
            plane,
            seeds,
            receiver=f"{name}-{n}",
        )
        for n in range(int(count))
    ]
    print("READY", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    with ThreadPoolExecutor(len(pulls)) as threads:
        loaded = list(threads.map(lambda pull: pull.run(within=300), pulls))
    assert all(each.verified and not each.troubles for each in loaded), [each.troubles for each in loaded]
    size = sum(each.bytes for each in loaded)
    took = time.monotonic() - began
    print(f"{len(loaded)} pulls of {size / 1e6:.0f} MB in {took:.1f} s; {shown([each.seconds for each in loaded])}")
    for pull in pulls:
        pull.close()
    engine.close()


if __name__ == "__main__":
    main()
