"""`python -m workers.relay` is `python -m workers.agent relay`."""

import sys

from .running import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
