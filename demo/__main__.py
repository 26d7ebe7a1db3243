"""`python -m demo`: start the fleet, say where to look, until Ctrl-C, SIGTERM or the end of `--seconds`."""

from __future__ import annotations

import asyncio
import sys

from . import settings as reading
from .places import Taken
from .running import Failed, run


def main() -> int:
    settings = reading.read()
    try:
        return asyncio.run(run(settings))
    except Taken as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 3
    except Failed as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
