"""A small transformer that any TP and PP split computes alike: what the reference pair serves, and its own oracle.

Grouped-query attention with rotary positions, RMS norm and a gated feed-forward layer, as in the models that engines
serve; float64 inside, so that sums in another order choose the same token; keys and values are kept in `kv_dtype`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

Reduce = Callable[[Tensor], Tensor]
"""The sum over the ranks of one TP group, the same on each of them."""

ROTARY_BASE = 10_000.0
EPSILON = 1e-6
SAID, ASKED, TOLD = 0.3, 3.0, 3.0
"""Scales of embeddings, queries and attention's output: what the keys of other tokens say decides which token is next."""


@dataclass(frozen=True, slots=True)
class Config:
    layers: int = 4
    hidden: int = 64
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 8
    feed_forward: int = 128
    vocabulary: int = 512
    seed: int = 0
    kv_dtype: torch.dtype = torch.float32

    def refuse(self, tp: int, pp: int) -> str | None:
        """Why it cannot be split so, as a sentence; None when it can."""
        if self.kv_heads % tp:
            return f"{self.kv_heads} KV heads cannot be split over {tp} TP ranks"
        if self.feed_forward % tp:
            return f"a feed-forward layer of {self.feed_forward} cannot be split over {tp} TP ranks"
        if self.layers % pp:
            return f"{self.layers} layers cannot be split over {pp} PP stages"
        return None


class Cache(Protocol):
    """Where a shard keeps keys and values: `[tokens, kv_heads / tp, head_dim]` of each of its own layers, from 0."""

    def write(self, layer: int, start: int, keys: Tensor, values: Tensor) -> None:
        """Those of the tokens from `start` on."""

    def read(self, layer: int, length: int) -> tuple[Tensor, Tensor]:
        """Those of the first `length` tokens."""


class Shard(nn.Module):
    """What one rank holds: its heads (TP) of its layers (PP). The weights follow from the seed, whatever the split."""

    def __init__(
        self, config: Config, *, tp_rank: int = 0, tp_size: int = 1, pp_rank: int = 0, pp_size: int = 1
    ) -> None:
        super().__init__()
        if refused := config.refuse(tp_size, pp_size):
            raise ValueError(refused)
        self.config = config
        self.heads = config.heads // tp_size
        self.kv_heads = config.kv_heads // tp_size
        self.first = pp_rank == 0
        self.last = pp_rank == pp_size - 1
        own = config.layers // pp_size
        self.layers = nn.ModuleList(_Layer(config, pp_rank * own + n, tp_rank, tp_size) for n in range(own))
        table = _parameter(config, "embedding", config.vocabulary, config.hidden, scale=SAID)
        if self.first:
            self.embedding = nn.Parameter(table, requires_grad=False)
        if self.last:
            self.head = nn.Parameter(_parameter(config, "head", config.hidden, config.vocabulary), requires_grad=False)

    def embed(self, tokens: Tensor) -> Tensor:
        """`[tokens]` → `[tokens, hidden]`; on the first stage."""
        return self.embedding[tokens]

    def forward(self, x: Tensor, start: int, cache: Cache, reduce: Reduce) -> Tensor:
        """`[tokens, hidden]` of the tokens from `start` on, through the layers of this stage; their KV is in `cache` then."""
        for number, layer in enumerate(self.layers):
            x = layer(x, start, number, cache, reduce)
        return x

    def choose(self, x: Tensor) -> int:
        """The next token after the last of `[tokens, hidden]`, greedily; on the last stage."""
        return int((_norm(x[-1]) @ self.head).argmax())


class _Layer(nn.Module):
    def __init__(self, config: Config, number: int, tp_rank: int, tp_size: int) -> None:
        super().__init__()
        self.config = config

        def cut(name: str, rows: int, columns: int, *, by: int, times: float = 1.0) -> nn.Parameter:
            """The share of one rank: its columns (by=1) of what it reads with, its rows (by=0) of what it writes with."""
            whole = _parameter(config, f"layers.{number}.{name}", rows, columns) * times
            return nn.Parameter(whole.chunk(tp_size, dim=by)[tp_rank].contiguous(), requires_grad=False)

        wide, narrow = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.query = cut("query", config.hidden, wide, by=1, times=ASKED)
        self.key = cut("key", config.hidden, narrow, by=1)
        self.value = cut("value", config.hidden, narrow, by=1)
        self.out = cut("out", wide, config.hidden, by=0, times=TOLD)
        self.gate = cut("gate", config.hidden, config.feed_forward, by=1)
        self.up = cut("up", config.hidden, config.feed_forward, by=1)
        self.down = cut("down", config.feed_forward, config.hidden, by=0)

    def forward(self, x: Tensor, start: int, number: int, cache: Cache, reduce: Reduce) -> Tensor:
        x = x + reduce(self._attend(_norm(x), start, number, cache))
        inner = _norm(x)
        return x + reduce((nn.functional.silu(inner @ self.gate) * (inner @ self.up)) @ self.down)

    def _attend(self, x: Tensor, start: int, number: int, cache: Cache) -> Tensor:
        count, size = len(x), self.config.head_dim
        places = torch.arange(start, start + count)
        query = _turn((x @ self.query).view(count, -1, size), places)
        key = _turn((x @ self.key).view(count, -1, size), places)
        value = (x @ self.value).view(count, -1, size)
        cache.write(number, start, key.to(self.config.kv_dtype), value.to(self.config.kv_dtype))
        keys, values = (kept.to(torch.float64) for kept in cache.read(number, start + count))
        shared = query.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(shared, 1), values.repeat_interleave(shared, 1)
        scores = torch.einsum("qhd,khd->hqk", query, keys) / math.sqrt(size)
        later = torch.arange(start + count)[None, :] > places[:, None]
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, values).reshape(count, -1) @ self.out


def _parameter(config: Config, name: str, rows: int, columns: int, *, scale: float | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(f"{config.seed}.{name}".encode()))
    whole = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return whole * (scale if scale is not None else 1 / math.sqrt(rows))


def _norm(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON)


def _turn(x: Tensor, places: Tensor) -> Tensor:
    """Rotary positions: `[tokens, heads, head_dim]`, the first half of each head with the second."""
    half = x.shape[-1] // 2
    speed = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = places[:, None, None] * speed
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * angle.cos() - high * angle.sin(), low * angle.sin() + high * angle.cos()], -1)
