"""What all tests of workers need."""

import tests.workers.mooncake_ports  # noqa: F401
