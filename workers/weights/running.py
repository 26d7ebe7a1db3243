"""A process of seeds or pulls: one thread a rank, each with an engine and memory of its own."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from torch import nn

from workers.sdk import Client, WorkerError, start_slot
from workers.transfer.engine import TransferEngine, open_engine
from workers.transfer.errors import TransferError

from .errors import WeightsError
from .holding import Holding
from .progress import Progress
from .pull import Loaded, Pull
from .sample import SampleShard, factory_at
from .seed import Seed
from .settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")
LOOK_SECONDS = 1.0
NOTICED_SECONDS = 0.2
PUBLISHED_SECONDS = 30.0
LINE_SECONDS = 1.0


class Rank:
    """What one rank has in this process."""

    def __init__(self, settings: Settings, number: int) -> None:
        self.number, self.shard = number, settings.shard(number)
        module = _module(settings, number)
        if settings.mode == "seed":
            self.holding = Holding.of(module)
        else:
            self.holding = Holding.into(module, file=_file(settings, number))
        self.engine: TransferEngine = open_engine(settings.backend, settings.host)
        self.seed: Seed | None = None

    def pull(self, settings: Settings, on_progress: Callable[[Progress], None]) -> Loaded:
        receiver = settings.receiver or settings.instance or socket.gethostname()
        time.sleep(start_slot(f"{receiver}/{self.number}", slots=settings.slots, seconds=settings.slot_seconds))
        work = Pull(
            self.holding,
            self.shard,
            self.engine,
            settings.plane,
            settings.seeds,
            receiver=receiver,
            expect=settings.expect,
            on_progress=on_progress,
        )
        try:
            return work.run(within=settings.timeout)
        finally:
            work.close()

    def serve(self, loaded: Loaded | None, client: Client, timeout: float) -> Seed:
        if loaded is None:
            self.seed = Seed(self.holding, self.shard, self.engine)
        else:
            promises = loaded.manifest.tensors if loaded.manifest is not None else None
            self.seed = Seed(self.holding, self.shard, self.engine, chain=loaded.chain, promises=promises)
        self.seed.publish(client, within=timeout)
        return self.seed

    def close(self) -> None:
        if self.seed is not None:
            self.seed.close()
        self.engine.close()


class Lines:
    """Progress on stderr: one line that is written over on a terminal, elsewhere a line a second and rank."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[int, float] = {}
        self._over = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        with self._lock:
            now, whole = time.monotonic(), progress.done == progress.total
            if not whole and now - self._said.get(progress.rank, float("-inf")) < (0.1 if self._over else LINE_SECONDS):
                return
            self._said[progress.rank] = now
            begin, end = ("\r\x1b[K", "\n" if whole else "") if self._over else ("", "\n")
            print(f"{begin}{progress.line}", end=end, file=sys.stderr, flush=True)


def run(settings: Settings) -> int:
    """Exit code: 0, or 1 when something did not come about, which was said then. A seed ends with SIGTERM or Ctrl-C."""
    # The ranks are threads already.
    torch.set_num_threads(1)
    with ExitStack() as open_:
        threads = open_.enter_context(ThreadPoolExecutor(len(settings.ranks), thread_name_prefix="rank"))
        ranks: list[Rank] = []
        for number in settings.ranks:
            ranks.append(Rank(settings, number))
            open_.callback(ranks[-1].close)
        loaded: list[Loaded | None] = [None] * len(ranks)
        try:
            if settings.mode == "pull":
                loaded = _pull_all(settings, ranks, threads)
                if None in loaded or settings.instance is None:
                    return 1 if None in loaded else 0
            assert settings.plane is not None
            client = open_.enter_context(Client(settings.plane))
            tries = [
                threads.submit(rank.serve, had, client, settings.timeout)
                for rank, had in zip(ranks, loaded, strict=True)
            ]
            seeds = [_result(task) for task in tries]
        except KeyboardInterrupt:
            # Ranks are busy, and whoever asked for an end does not wait for theirs. Engines end with us.
            os._exit(130)
        stop = threading.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
        said = ",".join(seed.manifest.content for seed in seeds)
        held = sum(seed.bytes for seed in seeds)
        print(f"seed ready {settings.instance} ranks={len(seeds)} bytes={held} content={said}", flush=True)
        _tend(seeds, [rank.engine for rank in ranks], client, stop)
    return 0


def _pull_all(settings: Settings, ranks: list[Rank], threads: ThreadPoolExecutor) -> list[Loaded | None]:
    """Of each rank what came of it, which is said at once; None where nothing did."""
    lines = Lines()
    tries = [threads.submit(rank.pull, settings, lines) for rank in ranks]
    if not settings.as_json:
        print(f"pulling ranks={len(ranks)} from={','.join(settings.seeds)}", flush=True)
    loaded: list[Loaded | None] = []
    for task in tries:
        try:
            loaded.append(done := _result(task))
            print(_json(done) if settings.as_json else done.sentence, flush=True)
        except (WeightsError, WorkerError, TransferError) as problem:
            loaded.append(None)
            print(f"error: {problem}", file=sys.stderr, flush=True)
    return loaded


def _result(task: Future[T]) -> T:
    """What became of it. A Ctrl-C just before a wait without a limit would be noticed only at its end."""
    while not task.done():
        wait((task,), timeout=NOTICED_SECONDS)
    return task.result()


def _tend(seeds: list[Seed], engines: list[TransferEngine], client: Client, stop: threading.Event) -> None:
    looked = time.monotonic()
    while not stop.wait(LOOK_SECONDS):
        due = time.monotonic() - looked > PUBLISHED_SECONDS
        looked = time.monotonic() if due else looked
        for seed, engine in zip(seeds, engines, strict=True):
            if due or not engine.alive:
                try:
                    if seed.tend(client, within=LOOK_SECONDS):
                        log.info("rank %d is published again, as %s", seed.rank, seed.session)
                except (WorkerError, TransferError) as problem:
                    log.warning("rank %d is not published just now: %s", seed.rank, problem)


def _module(settings: Settings, number: int) -> nn.Module:
    shard = settings.shard(number)
    if settings.module is not None:
        return factory_at(settings.module)(shard)
    seeds = settings.mode == "seed"
    sample = SampleShard(
        shard,
        layers=settings.layers,
        hidden=settings.hidden,
        dtype=getattr(torch, settings.dtype),
        device="cpu" if seeds else "meta",
    )
    return sample.fill(settings.number) if seeds else sample


def _file(settings: Settings, number: int) -> Path | None:
    if settings.keep is None:
        return None
    settings.keep.mkdir(parents=True, exist_ok=True)
    return settings.keep / f"rank-{number}.weights"


def _json(loaded: Loaded) -> str:
    said = {
        "rank": loaded.rank,
        "seeds": loaded.seeds,
        "session": loaded.session,
        "verified": loaded.verified,
        "content": loaded.manifest.content if loaded.manifest is not None else None,
        "chain": [{"seed": each.seed, "rank": each.rank, "session": each.session} for each in loaded.chain],
        "bytes": loaded.bytes,
        "bytes_found": loaded.found,
        "seconds": round(loaded.seconds, 3),
        "troubles": loaded.troubles,
    }
    return msgspec.json.encode(said).decode()
