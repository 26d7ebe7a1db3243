"""Whole prefill and decode instances in one process: real pools, real engines, real sockets."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

import tests.workers.mooncake_ports  # noqa: F401
from controlplane.domain.rankmap import DecodeRank, PrefillSizes, map_ranks
from workers.transfer.decode import DecodeSide
from workers.transfer.engine import TransferEngine, open_engine
from workers.transfer.layout import KvShape, Place
from workers.transfer.metadata import Field, MetadataSlots, sglang_fields
from workers.transfer.pool import KvPool
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Receiver
from workers.transfer.sources import sources_of

S = TypeVar("S", PrefillSide, DecodeSide)


@dataclass
class Rank(Generic[S]):
    pool: KvPool
    engine: TransferEngine
    metadata: MetadataSlots
    side: S

    def close(self) -> None:
        self.side.close()
        self.engine.close()
        self.pool.close()
        self.metadata.close()


def rank(
    kind: type[S],
    shape: KvShape,
    place: Place,
    dtype: torch.dtype,
    backend: str,
    *,
    pages: int = 32,
    slots: int = 8,
    host: str = "127.0.0.1",
    fields: Sequence[Field] = sglang_fields(),
    **more: object,
) -> Rank[S]:
    pool, engine, metadata = (
        KvPool(shape, place, pages, dtype),
        open_engine(backend, host),
        MetadataSlots(slots, fields),
    )
    side = kind(host=host, engine=engine, share=pool.share, kv=pool.segment, pages=pages, metadata=metadata, **more)  # type: ignore[arg-type]
    return Rank(pool, engine, metadata, side)


@contextlib.contextmanager
def instance(
    kind: type[S], shape: KvShape, dtype: torch.dtype, backend: str, *, tp: int = 1, pp: int = 1, **more: object
) -> Iterator[dict[tuple[int, int], Rank[S]]]:
    """All ranks of one DP group, by (tp, pp)."""
    made: dict[tuple[int, int], Rank[S]] = {}
    try:
        for at in ((t, p) for t in range(tp) for p in range(pp)):
            place = Place(tp_rank=at[0], tp_size=tp, pp_rank=at[1], pp_size=pp)
            made[at] = rank(kind, shape, place, dtype, backend, **more)
        yield made
    finally:
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(Rank.close, made.values()))


def whole_kv(shape: KvShape, dtype: torch.dtype, tokens: int, seed: int) -> torch.Tensor:
    """The KV of `tokens` tokens as one process would have it: (2 or 1, layers, tokens, heads, head_dim)."""
    generator = torch.Generator().manual_seed(seed)
    kinds = 1 if shape.is_mla else 2
    raw = torch.randint(0, 256, (kinds, shape.layers, tokens, shape.heads, shape.head_bytes), generator=generator)
    return raw.to(torch.uint8).view(dtype)


def put_share(rank: Rank[PrefillSide], whole: torch.Tensor, pages: Sequence[int], first: int, count: int) -> None:
    """Store this rank's part of tokens `first` … `first + count` of `whole` in `pages`."""
    for buffer, tokens in own_part(rank.pool, whole):
        rank.pool.put(buffer, pages, tokens[first : first + count])


def own_part(pool: KvPool, whole: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    share = pool.share
    heads = slice(share.first_head, share.first_head + share.heads)
    for kind, of_kind in enumerate(whole):
        for layer in share.layers:
            yield (pool.values(layer) if kind else pool.keys(layer)), of_kind[layer, :, heads]


def assert_has(rank: Rank[DecodeSide], whole: torch.Tensor, pages: Sequence[int]) -> None:
    """The decode rank's pages hold exactly its part, bit for bit."""
    count = whole.shape[2]
    for buffer, tokens in own_part(rank.pool, whole):
        found = rank.pool.tokens(buffer, pages, count)
        assert torch.equal(found.contiguous().view(torch.uint8), tokens.contiguous().view(torch.uint8))


def ask(
    decode: dict[tuple[int, int], Rank[DecodeSide]],
    prefill: dict[tuple[int, int], Rank[PrefillSide]],
    room: int,
    count: int,
    *,
    timeout: float = 60,
) -> dict[tuple[int, int], Receiver]:
    """Every decode rank asks the prefill ranks that the rules of the rank mapping name, for `count` pages."""
    tp, pp = max(at[0] for at in decode) + 1, max(at[1] for at in decode) + 1
    sizes = PrefillSizes(tp_size=max(at[0] for at in prefill) + 1, pp_size=max(at[1] for at in prefill) + 1)
    receivers = {}
    for (t, p), each in decode.items():
        is_mla = each.pool.share.shape.is_mla
        mapping = map_ranks(DecodeRank(tp_size=tp, engine_rank=t, pp_size=pp, pp_rank=p, is_mla=is_mla), sizes)
        receivers[t, p] = each.side.open(
            room,
            sources_of(mapping, sizes, lambda cp, tp, pp: prefill[tp, pp].side.endpoint, is_mla=is_mla),
            each.side.pages.take(count),
            required_dst_info_num=mapping.required_dst_info_num,
            answers_needed=mapping.required_prefill_response_num,
            timeout=timeout,
        )
    return receivers
