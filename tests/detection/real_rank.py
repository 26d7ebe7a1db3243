"""Real prefill ranks, each a process: SGLang is imported once, and forked for every `rank KV_PORT INSTANCE` on stdin.

`rank KV_PORT INSTANCE SHAPE SLOT PAGE_SIZE` (such as 1,1,2,1 and 0,0,1,0) is one of a launch of several.

A rank is SGLang's own KV manager: it opens its ZeroMQ PULL and registers by its own code. `born PID PORT` is said once it
has; then it does nothing more, until somebody kills it. `-` as the instance: it names none, as unmodified engines do.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading

from tests.compat.harness import Prefill, Shape

PR_SET_PDEATHSIG = 1


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that are killed
    gc.collect()
    gc.freeze()
    print("waiting", flush=True)
    for line in sys.stdin:
        _, kv_port, instance, *more = line.split()
        if os.fork() == 0:
            # A fork does not inherit this: a test that is killed must leave no rank behind.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
            _live(int(kv_port), "" if instance == "-" else instance, *more)


def _live(kv_port: int, instance: str, shape: str = "1,1,1,1", slot: str = "0,0,0,0", page_size: str = "64") -> None:
    dp, cp, tp, pp = map(int, slot.split(","))
    launch = Prefill(Shape(*map(int, shape.split(","))), kv_port, instance or None)
    rank = launch.register((dp, cp, tp, pp), page_size=int(page_size))
    print(f"born {os.getpid()} {rank.rank_port}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
