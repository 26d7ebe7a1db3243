"""SGLang's own servers, imported once, then forked for each `kv PORT` or `engine PORT` on standard input.

Prints `ready PID` for each. The heap is frozen before the fork (gc.freeze): garbage collection over torch's
modules gives the original a tail of 0.2–1.5 s, and ours must not be credited for that. `stop PID` ends one.
With `kv PORT` as arguments it serves itself: a forked server does not show all of its memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time

from tests.compat.harness import EngineInfoBootstrapServer, conn
from tests.support.ports import is_open

PR_SET_PDEATHSIG = 1


def main() -> None:
    gc.collect()
    gc.freeze()
    if len(sys.argv) == 3:
        _serve(sys.argv[1], int(sys.argv[2]))
    print("waiting", flush=True)
    for line in sys.stdin:
        word, argument = line.split()
        if word == "stop":
            os.kill(int(argument), signal.SIGKILL)
            os.waitpid(int(argument), 0)
            print(f"stopped {argument}", flush=True)
        elif os.fork() == 0:
            # A fork does not inherit this: a benchmark that is killed must leave no server behind.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
            _serve(word, int(argument))


def _serve(kind: str, port: int) -> None:
    serve = conn.CommonKVBootstrapServer if kind == "kv" else EngineInfoBootstrapServer
    server = serve("127.0.0.1", port)
    while not is_open(port):
        time.sleep(0.01)
    print(f"ready {os.getpid()}", flush=True)
    threading.Event().wait()
    server.close()


if __name__ == "__main__":
    main()
