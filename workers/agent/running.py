"""One DP group that serves: a prompt in, the first token out; tokens after it, one at a time, from what the cache holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from .model import Cache, Config, Shard
from .ranks import Group, Place

Caches = Mapping[Place, Cache]
"""One of each rank, for one request."""


class Runner:
    """The shards of one DP group. Not for several threads at once."""

    def __init__(self, config: Config, *, tp_size: int = 1, pp_size: int = 1) -> None:
        self.config = config
        self.group = Group(tp_size, pp_size)
        self.shards = {
            at: Shard(config, tp_rank=at.tp, tp_size=tp_size, pp_rank=at.pp, pp_size=pp_size)
            for at in self.group.places
        }

    def prefill(self, prompt: Sequence[int], caches: Caches) -> int:
        """The token after the prompt; the KV of the prompt is in the caches then."""
        return self._run(list(prompt), 0, caches)

    def step(self, token: int, start: int, caches: Caches) -> int:
        """The token after `token`, which stands at `start`; its KV is in the caches then."""
        return self._run([token], start, caches)

    def generate(self, first: int, start: int, count: int, caches: Caches, *, on: Callable[[int], None]) -> list[int]:
        """`count` tokens, `first` the first of them, at `start`; `on` is told each as it comes."""
        made = [first]
        on(first)
        while len(made) < count:
            made.append(self.step(made[-1], start + len(made) - 1, caches))
            on(made[-1])
        return made

    def _run(self, tokens: list[int], start: int, caches: Caches) -> int:
        last = self.group.pp_size - 1

        def part(at: Place) -> int | None:
            shard = self.shards[at]
            x = shard.embed(torch.tensor(tokens)) if at.pp == 0 else self.group.receive("hidden", at)
            x = shard(x, start, caches[at], lambda sum_of: self.group.reduce(at, sum_of))
            if at.pp != last:
                self.group.send("hidden", Place(at.tp, at.pp + 1), x)
                return None
            return shard.choose(x)

        with torch.inference_mode():
            done = self.group.run(part)
        chosen = done[Place(0, last)]
        assert isinstance(chosen, int)
        return chosen


class PlainCache:
    """Keys and values as they come, of one rank and one request: what the oracle uses."""

    def __init__(self, layers: int) -> None:
        self._kept: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def write(self, layer: int, start: int, keys: Tensor, values: Tensor) -> None:
        before = self._kept[layer]
        if before is not None and start:
            keys, values = (torch.cat([old[:start], new]) for old, new in zip(before, (keys, values), strict=True))
        self._kept[layer] = (keys, values)

    def read(self, layer: int, length: int) -> tuple[Tensor, Tensor]:
        kept = self._kept[layer]
        if kept is None or len(kept[0]) < length:
            raise LookupError(f"layer {layer} has no keys of {length} tokens")
        return kept[0][:length], kept[1][:length]


def oracle(config: Config, prompt: Sequence[int], count: int) -> list[int]:
    """What the whole model says after the prompt, in this process, with nothing split and nothing sent."""
    runner = Runner(config)
    caches = {at: PlainCache(config.layers) for at in runner.group.places}
    return runner.generate(runner.prefill(prompt, caches), len(prompt), count, caches, on=lambda _: None)
