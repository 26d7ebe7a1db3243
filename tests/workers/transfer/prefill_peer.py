"""A prefill rank in a process of its own, for tests that stop, kill and restart it: BACKEND PORT; then one room a line.

It sends `whole_kv(seed=room)` for each, in a thread.
"""

import sys
import threading

from tests.workers.transfer import faults
from tests.workers.transfer.ranks import Rank, put_share, rank, whole_kv
from workers.messaging.replies import Poll
from workers.transfer.errors import TransferError
from workers.transfer.layout import Place
from workers.transfer.prefill import PrefillSide


def serve(made: Rank[PrefillSide], room: int) -> None:
    sender = made.side.open(room, timeout=30)
    try:
        if sender.wait_until_asked(30) is Poll.FAILED:
            return
        pages = made.side.pages.take(faults.PAGES)
        put_share(made, whole_kv(faults.SHAPE, faults.DTYPE, faults.TOKENS, seed=room), pages, 0, faults.TOKENS)
        for page in pages:
            sender.send([page])
        sender.finish(metadata={"output_ids": [room]})
        sender.wait(30)
    except TransferError as why:
        print(f"room {room}: {why}", file=sys.stderr)
    finally:
        sender.close()


def main() -> None:
    backend, port = sys.argv[1], int(sys.argv[2])
    made = rank(
        PrefillSide, faults.SHAPE, Place(), faults.DTYPE, backend, pages=256, slots=64, port=port, checksums=True
    )
    print(f"READY {made.engine.session}", flush=True)
    for line in sys.stdin:
        threading.Thread(target=serve, args=(made, int(line)), daemon=True).start()
    made.close()


if __name__ == "__main__":
    main()
