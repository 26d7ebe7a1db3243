"""One rank of a launch, as a process: `rank.py RANK WORLD MASTER PORT [fixed|alone|sleepy] [SECONDS]`; it prints what it knows.

It reserves a port of its own, as launchers do, and must come to use the leader's.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import sys
import time

from workers.collective import Launch, NotAgreed, agree


def main() -> None:
    rank, world, master, port, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
    with socket.socket() as reserved:
        reserved.bind(("", 0))
        own = 9000 + rank if how == "fixed" else reserved.getsockname()[1]
    within = float(sys.argv[6]) if len(sys.argv) > 6 else 30.0
    began = time.monotonic()
    try:
        if how != "alone":
            import torch.distributed as dist

            dist.init_process_group(
                "gloo",
                init_method=f"tcp://{master}:{port}",
                rank=rank,
                world_size=world,
                timeout=datetime.timedelta(seconds=60),
            )
        if how == "sleepy" and rank == 0:
            print(json.dumps({"rank": rank, "sleeps": True}), flush=True)
            time.sleep(600)
        began = time.monotonic()
        launch = agree(Launch(own, f"token-of-{rank}"), nnodes=2, within=within)
        said = {"rank": rank, "own": own, "port": launch.port, "token": launch.token}
    except NotAgreed as problem:
        said = {"rank": rank, "kind": type(problem).__name__, "why": problem.sentence}
    print(json.dumps({**said, "took": time.monotonic() - began}), flush=True)
    # A group whose time ran out cannot be left in good order.
    os._exit(0)


if __name__ == "__main__":
    main()
