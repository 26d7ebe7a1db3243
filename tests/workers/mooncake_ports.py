"""Where Mooncake's engines listen in tests: importing this is enough, child processes inherit it.

The library takes any free port of 15000–17000, of which `tests.support.ports` gives some away that are bound only later. Up
here nobody else takes ports: above the range for outgoing connections.
"""

import os

os.environ.setdefault("MC_MIN_PRC_PORT", "61000")
os.environ.setdefault("MC_MAX_PRC_PORT", "64999")
