"""How fast this machine is just now: bounds are in seconds of one that does nothing else."""

import time


def slowness() -> float:
    """How many seconds pass while one process computes for one: 1 on a machine that does nothing else."""
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.3:
        pass
    return max(1.0, (time.monotonic() - began) / (time.process_time() - used))
