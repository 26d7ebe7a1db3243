"""`python -m workers.agent prefill|decode|relay`: which of them, and what it needs is imported then."""

from __future__ import annotations

import sys


def main() -> int:
    if sys.argv[1:2] == ["relay"]:
        # It runs where neither torch nor aiohttp need be installed.
        from workers.relay.running import main as relay

        return relay(sys.argv[2:])
    from .serving import main as agent

    return agent()


if __name__ == "__main__":
    sys.exit(main())
