"""The look-ups that SGLang's own decode makes before its first request, at each address that standard input names.

A decode of one rank takes its KV from every rank of a prefill of TP 64: the topology, then one look-up a rank over a
connection that is kept. Prints `took SECONDS`; everything is cold but the interpreter.
"""

from __future__ import annotations

import logging
import sys
import time

from tests.compat import harness
from tests.compat.harness import conn

RANKS = 64


def main() -> None:
    logging.disable(logging.CRITICAL)
    print("waiting", flush=True)
    for line in sys.stdin:
        address = line.strip()
        decode = harness.decode_rank()
        # The session of the last time is not to be had for nothing.
        conn._bootstrap_sessions.by_addr = {}
        began = time.perf_counter()
        assert decode.try_ensure_parallel_info(address), f"{address} is not ready"
        found = [harness.look_up(address, (0, 0, tp, 0)) for tp in range(RANKS)]
        took = time.perf_counter() - began
        assert all(found), found
        print(f"took {took:.6f}", flush=True)


if __name__ == "__main__":
    main()
