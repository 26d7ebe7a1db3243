"""One run of wrk against one server: rate, latencies, and what it cost."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

SCRIPT = Path(__file__).parent / "replay.lua"


class Request(NamedTuple):
    method: str
    path: str
    body: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement. Latencies in ms; `cpu_us` is all processes of the server, per request."""

    per_second: float
    p50: float
    p90: float
    p99: float
    cpu_us: float
    rss_mb: float
    foreign_cores: float
    refused: int
    broken: int
    sent: int


def write_requests(path: Path, requests: Iterable[Request]) -> Path:
    with path.open("w") as file:
        file.writelines(f"{request.method}\t{request.path}\t{request.body}\n" for request in requests)
    return path


def run(
    url: str,
    requests: Path,
    *,
    processes: list[psutil.Process],
    connections: int,
    seconds: int,
    order: str = "cycle",
    close: bool = False,
) -> Run:
    """Load `url` for some whole seconds. The first of `processes` is the one whose memory is shown."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(SCRIPT), url]
    command += ["--", str(requests), order, *(["close"] if close else [])]
    cpu, busy, own, began = _cpu(processes), _busy(), _children(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)
    took = time.monotonic() - began
    cpu, busy, own = _cpu(processes) - cpu, _busy() - busy, _children() - own
    found = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    if done.returncode or not found:
        raise RuntimeError(f"wrk failed on {url}: {done.stdout}{done.stderr}")
    result = json.loads(found[0].removeprefix("result "))
    return Run(
        per_second=result["requests"] / (result["microseconds"] / 1e6),
        p50=result["p50"],
        p90=result["p90"],
        p99=result["p99"],
        cpu_us=cpu / max(result["requests"], 1) * 1e6,
        rss_mb=processes[0].memory_info().rss / 2**20,
        foreign_cores=max(0.0, (busy - cpu - own) / took),
        refused=result["refused"],
        broken=result["broken"],
        sent=result["sent"],
    )


def _cpu(processes: list[psutil.Process]) -> float:
    """CPU seconds used so far, by the processes and by children that they have reaped."""
    total = 0.0
    for process in processes:
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _busy() -> float:
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq + getattr(times, "steal", 0.0)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def machine() -> str:
    """Processor, cores and kernel, for the head of the report."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    memory = psutil.virtual_memory().total / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {os.uname().release}"
