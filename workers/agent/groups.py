"""A DP group of an agent: its ranks with their memory, engines and sockets, and the model that runs on them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import torch

from workers.transfer import (
    DecodeSide,
    MetadataSlots,
    NothingFree,
    PrefillSide,
    TransferEngine,
    TransferError,
    open_engine,
)
from workers.transfer import Place as Seat
from workers.transfer.metadata import sglang_fields
from workers.transfer.pool import KvPool, shape_of

from .model import Config
from .paged import PagedCache
from .ranks import Place
from .running import Runner
from .settings import Settings

log = logging.getLogger(__name__)

Side = TypeVar("Side", PrefillSide, DecodeSide)
T = TypeVar("T")
METADATA_SLOTS = 64


def config_of(settings: Settings) -> Config:
    return Config(seed=settings.seed, kv_dtype=getattr(torch, settings.dtype))


class Rank(Generic[Side]):
    """One rank: close it last to first."""

    def __init__(self, settings: Settings, config: Config, at: Place, open_side: Callable[..., Side]) -> None:
        shape = shape_of(
            layers=config.layers,
            heads=config.kv_heads,
            head_dim=config.head_dim,
            dtype=config.kv_dtype,
            page_size=settings.page_size,
        )
        seat = Seat(tp_rank=at.tp, tp_size=settings.tp, pp_rank=at.pp, pp_size=settings.pp)
        self.pool = KvPool(shape, seat, settings.pages, config.kv_dtype)
        # As engines do that keep hidden states as float32: an engine of SGLang may be the other side.
        self.metadata = MetadataSlots(METADATA_SLOTS, sglang_fields(hidden_bytes=config.hidden * 4))
        self.engine: TransferEngine = open_engine(settings.backend, settings.host)
        self.side: Side = open_side(
            host=settings.host,
            engine=self.engine,
            share=self.pool.share,
            kv=self.pool.segment,
            pages=settings.pages,
            metadata=self.metadata,
        )

    def close(self) -> None:
        self.side.close()
        self.engine.close()
        self.pool.close()
        self.metadata.close()


class DpGroup(Generic[Side]):
    """Computes one request at a time (`lock`), and moves the KV of many."""

    def __init__(self, settings: Settings, dp: int, open_side: Callable[..., Side]) -> None:
        config = config_of(settings)
        self.dp = dp
        self.lock = threading.Lock()
        self._relief = threading.Lock()
        self.runner = Runner(config, tp_size=settings.tp, pp_size=settings.pp)
        self.ranks: dict[Place, Rank[Side]] = {
            at: Rank(settings, config, at, open_side) for at in self.runner.group.places
        }

    def caches(self, pages: Mapping[Place, Sequence[int]]) -> dict[Place, PagedCache]:
        return {at: PagedCache(rank.pool, pages[at]) for at, rank in self.ranks.items()}

    def taking(self, take: Callable[[], T]) -> T:
        """What `take` takes; tried once more where a quarantine was what stood in its way. Raises NothingFree."""
        try:
            return take()
        except NothingFree:
            if not self._relieve():
                raise
            return take()

    def _relieve(self) -> bool:
        """End quarantines by starting engines anew, where that costs nobody a room, or less than it gives back: a peer that
        died under a room never says that it writes no more. Whether there was one."""
        done = False
        with self._relief:
            for at, rank in self.ranks.items():
                stocks, held = (rank.side.pages, rank.side.slots), rank.side.pages.held
                is_idle = not any(stock.taken for stock in stocks)
                if (held and is_idle) or any(2 * stock.held >= stock.size for stock in stocks):
                    try:
                        rank.side.reset()
                    except TransferError:
                        log.exception("%d pages of %s stay in quarantine: its engine does not start", held, at)
                        continue
                    log.warning("%d pages of %s were in quarantine; its transfer engine was started anew", held, at)
                    done = True
        return done

    def close(self) -> None:
        for rank in self.ranks.values():
            rank.close()


class Pages(Generic[Side]):
    """Pages of every rank for one request: all or none, and back again unless somebody else took them over."""

    def __init__(self, group: DpGroup[Side], count: int) -> None:
        self._group: DpGroup[Side] = group
        self.of: dict[Place, tuple[int, ...]] = {}
        try:
            for at, rank in group.ranks.items():
                self.of[at] = rank.side.pages.take(count)
        except BaseException:
            self.close()
            raise

    def hand_over(self, at: Place) -> tuple[int, ...]:
        """They belong to a sender or a receiver from here on."""
        return self.of.pop(at)

    def close(self) -> None:
        for at in list(self.of):
            self._group.ranks[at].side.pages.give_back(self.of.pop(at))
