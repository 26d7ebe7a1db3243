"""`python -m workers.weights seed|pull`: weights from process to process, found through the control plane."""

from __future__ import annotations

import logging
import sys

from workers.sdk import WorkerError
from workers.transfer import TransferError

from . import settings as reading
from .errors import WeightsError


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = reading.read()
    # torch takes seconds to import, and a wrong option should be said at once.
    from .running import run

    try:
        return run(settings)
    except (WeightsError, WorkerError, TransferError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
