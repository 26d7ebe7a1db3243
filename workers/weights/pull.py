"""One rank that pulls: from the first seed that has what it needs, from the next where that one ends, until all is proven.

A tensor counts when its bytes have the digest that the seed promised, whoever sent them, so a pull that broke off goes on where
it was, with the same seed, another one, or one that was started anew. Seeds without a manifest promise nothing: what came from
one publication of theirs is not mixed with another's, and that the same session is published afterwards is all that can be said.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.sdk import ControlPlane, NotFound, WorkerError
from workers.sdk.backoff import Backoff
from workers.transfer.engine import TransferEngine
from workers.transfer.errors import BadBlocks, TransferError, TransferFailed
from workers.transfer.layout import Place as Shard

from .checking import Checker
from .errors import Moved, NoSeed, Unfit, WeightsError
from .holding import Holding
from .manifest import Manifest, Origin, world_rank
from .offer import Offer, read_offer
from .progress import Meter, Progress, size
from .seed import registered
from .sources import Sources
from .steps import STEP_BYTES, steps

CALL_SECONDS = 8.0
TROUBLES = 20


@dataclass(frozen=True, slots=True)
class Loaded:
    """`seeds`: who sent something, in that order. `manifest` is None when nothing could be verified but sizes."""

    rank: int
    seeds: tuple[str, ...]
    session: str
    manifest: Manifest | None
    chain: tuple[Origin, ...]
    bytes: int
    found: int
    seconds: float
    troubles: tuple[str, ...]

    @property
    def verified(self) -> bool:
        return self.manifest is not None

    @property
    def sentence(self) -> str:
        how = "every byte verified by digest"
        if self.manifest is None:
            how = "verified by number and size of the elements only: this seed publishes no digests"
        rate = f", {size(self.bytes / self.seconds)}/s" if self.seconds > 0 and self.bytes else ""
        there = f", {size(self.found)} were there" if self.found else ""
        seeds = ", then ".join(self.seeds) or "nobody"
        return f"rank {self.rank}: {size(self.bytes)} from {seeds} in {self.seconds:.1f} s{rate}{there}; {how}"


class Pull:
    """`seeds`: see `Sources`. `expect`: the content (`Manifest.content`) that the weights must have, if it is known.

    `run` may be called again after it failed: what is proven is not fetched again. Not for several threads at once.
    """

    def __init__(
        self,
        holding: Holding,
        shard: Shard,
        engine: TransferEngine,
        plane: ControlPlane | None,
        seeds: Sequence[str],
        *,
        receiver: str,
        expect: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        step_bytes: int = STEP_BYTES,
    ) -> None:
        self.rank, self._shard, self._engine, self._holding = world_rank(shard), shard, engine, holding
        self._held = list(holding.held.values())
        self._expect, self._on_progress, self._step_bytes = expect, on_progress, step_bytes
        self._sources = Sources(plane, seeds, receiver=f"{receiver}/{self.rank}")
        self._proven: dict[str, str] = {}
        self._looked = not holding.found
        self._found = self._came = 0
        self._givers: list[str] = []
        self._meter = Meter()
        for region in holding.regions:
            registered(engine, region)

    def close(self) -> None:
        self._sources.close()

    def run(self, *, within: float) -> Loaded:
        """Raises NoSeed when it is not whole in time, or at once when no seed fits; everything else is tried again."""
        began = time.monotonic()
        end, came = began + within, self._came
        troubles: dict[str, str] = {}
        told: deque[str] = deque(maxlen=TROUBLES)
        pauses = Backoff(0.1, 2.0).pauses()
        while True:
            hopeless = 0
            for seed in self._sources.order:
                left = end - time.monotonic()
                if left <= 0:
                    break
                try:
                    offer = self._offer(seed, left)
                    self._take(offer, end)
                except (WorkerError, WeightsError, TransferError) as problem:
                    hopeless += isinstance(problem, Unfit)
                    sentence = _sentence(problem, self.rank)
                    told.append(f"{seed}: {sentence}")
                    # That there was no time at last says less than what was wrong before.
                    if seed not in troubles or time.monotonic() < end:
                        troubles[seed] = sentence
                    self._mend(problem)
                    continue
                seconds = time.monotonic() - began
                givers, moved = tuple(dict.fromkeys(self._givers)), self._came - came
                return Loaded(
                    self.rank,
                    givers,
                    offer.session,
                    offer.manifest,
                    offer.chain,
                    moved,
                    self._found,
                    seconds,
                    tuple(told),
                )
            pause = next(pauses)
            if hopeless == len(self._sources.order) or time.monotonic() + pause >= end:
                raise NoSeed(self._failed(troubles))
            time.sleep(pause)

    def _offer(self, seed: str, left: float) -> Offer:
        publication = self._sources.fetch(seed, self.rank, within=left)
        offer = read_offer(publication, self._held, self._shard, self._engine)
        if self._expect is not None:
            content = offer.manifest.content if offer.manifest is not None else "without digests"
            if content != self._expect:
                raise Unfit(f"its weights are {content}, and {self._expect} were asked for")
        return offer

    def _take(self, offer: Offer, end: float) -> None:
        """All that is missing. Raises what goes wrong; what is proven stays."""
        self._look(offer)
        missing = [each for each in self._held if self._proven.get(each.name) != offer.proof(each.name)]
        for each in missing:
            self._proven.pop(each.name, None)
        done = self._holding.bytes - sum(each.bytes for each in missing)
        self._tell(offer, done)
        with Checker(self._holding, offer, self._proven) as check:
            for step in steps(missing, offer.told, most_bytes=self._step_bytes):
                left = end - time.monotonic()
                if left <= 0:
                    raise Moved("the time was over")
                if step.blocks:
                    self._engine.read(offer.session, step.blocks, timeout=min(left, CALL_SECONDS))
                    self._givers.append(offer.seed)
                    self._came += step.bytes
                check(step.whole)
                done += step.bytes
                self._tell(offer, done)
        if offer.manifest is None:
            self._still(offer, end)

    def _look(self, offer: Offer) -> None:
        """Once: what an earlier process left in the file."""
        if self._looked or offer.manifest is None:
            return
        self._looked = True
        for each in self._held:
            if self._holding.digest(each.name) == (digest := offer.proof(each.name)):
                self._proven[each.name] = digest
                self._found += each.bytes

    def _still(self, offer: Offer, end: float) -> None:
        """Raises Moved when the seed publishes something else by now, or does not answer: then nothing of it counts."""
        try:
            left = max(0.1, end - time.monotonic())
            same = self._sources.fetch(offer.seed, self.rank, within=left).identity == offer.identity
            if not same or not self._engine.probe(offer.session):
                raise Moved("it started anew while it was read from, and publishes no digests: nothing of it counts")
        except (WorkerError, Moved):
            self._proven.clear()
            raise

    def _mend(self, problem: Exception) -> None:
        """Nothing of what failed may still write into the module when the next seed does."""
        if not self._engine.alive or (isinstance(problem, TransferFailed) and not problem.settled):
            self._engine.reset()

    def _tell(self, offer: Offer, done: int) -> None:
        if self._on_progress is not None:
            rate = self._meter.rate(self._came, time.monotonic())
            self._on_progress(Progress(self.rank, done, self._holding.bytes, rate, offer.seed, self._found))

    def _failed(self, troubles: dict[str, str]) -> str:
        there = sum(each.bytes for each in self._held if each.name in self._proven)
        said = "; ".join(f"{seed}: {why}" for seed, why in troubles.items()) or "there was no time to ask any"
        return (
            f"rank {self.rank} has {size(there)} of {size(self._holding.bytes)}, and no seed gives the rest. {said}."
            " Start a seed, or name another; run it again to go on from here"
        )


def _sentence(problem: Exception, rank: int) -> str:
    if isinstance(problem, NotFound):
        return f"it has not published rank {rank}"
    if isinstance(problem, BadBlocks):
        return f"it knows nothing of that memory any more, so it started anew ({problem})"
    return problem.sentence if isinstance(problem, WorkerError | WeightsError) else str(problem)
