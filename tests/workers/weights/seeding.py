"""Seeds and pulls in this process, on a real bootstrap process, for tests that look at both ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from workers.sdk import Client, ControlPlane
from workers.transfer.engine import TransferEngine, open_engine
from workers.weights import Shard
from workers.weights.holding import Holding
from workers.weights.pull import Pull
from workers.weights.sample import SampleShard
from workers.weights.seed import Seed

ONE = Shard()


def sample(shard: Shard = ONE, *, number: int | None = None, layers: int = 3, hidden: int = 96, **more) -> SampleShard:
    """Filled from `number`, or empty on the meta device."""
    made = SampleShard(shard, layers=layers, hidden=hidden, device="cpu" if number is not None else "meta", **more)
    return made if number is None else made.fill(number)


def same(one: nn.Module, other: nn.Module) -> bool:
    ours, theirs = dict(one.named_parameters()), dict(other.named_parameters())
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@dataclass
class Bench:
    """Makes seeds and pulls, and closes them all."""

    plane: ControlPlane
    backend: str = "zmq"
    stack: ExitStack = field(default_factory=ExitStack)

    def engine(self) -> TransferEngine:
        engine = open_engine(self.backend, "127.0.0.1")
        self.stack.callback(engine.close)
        return engine

    def client(self, instance: str) -> Client:
        return self.stack.enter_context(Client(replace(self.plane, instance=instance)))

    def seed(self, instance: str, module: nn.Module, shard: Shard = ONE, *, publish: bool = True, **more) -> Seed:
        seed = Seed(Holding.of(module), shard, self.engine(), **more)
        self.stack.callback(seed.close)
        if publish:
            seed.publish(self.client(instance), within=20)
        return seed

    def pull(self, module: nn.Module, seeds: Sequence[str], shard: Shard = ONE, *, file=None, **more) -> Pull:
        more.setdefault("receiver", "replica")
        pull = Pull(Holding.into(module, file=file), shard, self.engine(), self.plane, seeds, **more)
        self.stack.callback(pull.close)
        return pull


@contextmanager
def bench(plane: ControlPlane, backend: str = "zmq") -> Iterator[Bench]:
    made = Bench(plane, backend)
    with made.stack:
        yield made
