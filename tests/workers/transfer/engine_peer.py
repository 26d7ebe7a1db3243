"""An engine in a process of its own, for tests that stop, kill and restart it: BACKEND PORT LENGTH.

It registers a segment, says its session and base, and serves until its input ends.
"""

import os
import sys

from workers.transfer.memory import Segment


def main() -> None:
    backend, port, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    segment = Segment(length)
    if backend == "zmq":
        from workers.transfer.zmq_engine import ZmqEngine

        engine = ZmqEngine("127.0.0.1", port)
    else:
        from workers.transfer.mooncake import MooncakeEngine

        # In this very process, so that stopping it stops the engine. It chooses its ports itself.
        engine = MooncakeEngine("127.0.0.1")
    print(f"READY {engine.session} {engine.register(segment)}", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
