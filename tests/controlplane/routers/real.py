"""The real sglang-router as a child process, and what a test asks it directly."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.support.processes import Child, clean_env


class RealRouter:
    """sglang-router in PD mode, starting empty; its ports stay the same over restarts."""

    def __init__(self, log: Path, *more: str) -> None:
        self.port, self.metrics_port, self.log, self.more = free_port(), free_port(), log, more
        self.child: Child | None = None
        self.http = httpx.Client(timeout=30, trust_env=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}"

    def start(self) -> RealRouter:
        knobs = {
            "--host": "127.0.0.1",
            "--port": self.port,
            "--prometheus-host": "127.0.0.1",
            "--prometheus-port": self.metrics_port,
            "--policy": "round_robin",
            "--worker-startup-timeout-secs": 5,
            "--worker-startup-check-interval": 1,
            "--retry-max-retries": 1,
        }
        argv = [sys.executable, "-m", "sglang_router.launch_router", "--pd-disaggregation"]
        argv += [str(part) for pair in knobs.items() for part in pair] + list(self.more)
        self.child = Child(argv, env=clean_env(), log=self.log)
        eventually(self._answers, within=60)
        return self

    def restart(self) -> None:
        self.kill()
        self.start()

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill9()
            self.child = None

    def close(self) -> None:
        self.kill()
        self.http.close()

    def empty(self) -> None:
        if self.child is None:
            self.start()
        for worker in self.workers():
            self.http.delete(f"{self.url}/workers/{worker['id']}")
        eventually(lambda: not self.workers())

    def workers(self) -> list[dict[str, Any]]:
        """Its own list, by URL."""
        answer = self.http.get(f"{self.url}/workers").raise_for_status()
        return sorted(answer.json()["workers"], key=lambda worker: worker["url"])

    def urls(self) -> list[str]:
        return [worker["url"] for worker in self.workers()]

    def post(self, **worker: Any) -> None:
        """What somebody else does to it, by hand."""
        self.http.post(f"{self.url}/workers", json=worker).raise_for_status()

    def generate(self, **headers: str) -> int:
        body = {"text": "hello", "sampling_params": {"max_new_tokens": 1}}
        return self.http.post(f"{self.url}/generate", json=body, headers=headers).status_code

    def pool(self) -> dict[str, int]:
        """The pool sizes that its metrics show, by kind of worker; kinds without any are left out."""
        sizes = {}
        for line in self.http.get(f"{self.metrics_url}/metrics").text.splitlines():
            if line.startswith("smg_worker_pool_size{"):
                kind = line.partition('worker_type="')[2].partition('"')[0]
                sizes[kind] = sizes.get(kind, 0) + int(float(line.rpartition(" ")[2]))
        return {kind: size for kind, size in sizes.items() if size}

    def _answers(self) -> bool:
        try:
            # One that wants a key says so, and serves.
            return self.http.get(f"{self.url}/workers").status_code in (200, 401)
        except httpx.HTTPError:
            return False


def eventually(true: Any, *, within: float = 30) -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.05)
