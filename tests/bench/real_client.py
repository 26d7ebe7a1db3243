"""1,024 registrations by SGLang's own client code, with each base URL that standard input names.

Prints `took SECONDS`: from the first PUT until the topology is answered. Eight threads share the work, since
each real rank is a process of its own, and one Python process cannot be 1,024 of them.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import requests

from tests.bench.traffic import TOPOLOGY_QUERY, rows
from tests.compat.harness import CommonKVManager


def main() -> None:
    logging.disable(logging.CRITICAL)
    print("waiting", flush=True)
    for line in sys.stdin:
        url = f"{line.strip()}/route"
        payloads = [json.loads(row) for row in rows(1024)]
        began = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(_register, repeat(url), payloads))
        while requests.get(f"{url}?{TOPOLOGY_QUERY}", timeout=5).status_code != 200:
            time.sleep(0.005)
        print(f"took {time.perf_counter() - began:.4f}", flush=True)


def _register(url: str, payload: dict) -> None:
    CommonKVManager._register_topology_row(types.SimpleNamespace(), url, payload)


if __name__ == "__main__":
    main()
