"""What one seed has to give just now: read, checked against the module, and bound to the session that published it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.sdk.engine_info import Tensor
from workers.transfer.engine import TransferEngine
from workers.transfer.errors import TransferFailed
from workers.transfer.layout import Place as Shard
from workers.transfer.memory import Segment

from . import manifest as manifests
from .errors import Moved
from .manifest import Manifest, Origin
from .matching import Held, check_manifest, check_told
from .sources import Publication


@dataclass(frozen=True, slots=True)
class Offer:
    """`manifest` is None for seeds that have none, such as SGLang's own engines."""

    seed: str
    rank: int
    session: str
    identity: str
    told: Mapping[str, Tensor]
    manifest: Manifest | None

    def proof(self, name: str) -> str:
        """What a tensor must have been fetched with to count as this offer's: its digest, or this very publication."""
        return self.manifest.tensors[name].digest if self.manifest is not None else self.identity

    @property
    def chain(self) -> tuple[Origin, ...]:
        """Of whoever pulls it: this seed, and where it had it from."""
        before = self.manifest.chain if self.manifest is not None else ()
        return manifests.longer(Origin(self.seed, self.rank, self.session), before)


def read_offer(publication: Publication, held: Sequence[Held], shard: Shard, engine: TransferEngine) -> Offer:
    """Raises Unfit, Moved (the memory at that session is of another process), and what engines raise."""
    weights = publication.weights
    told = weights.tensors()
    check_told(held, told)
    found = manifests.book_in(told)
    manifest = None
    if found is not None:
        total, address, length = found
        manifest = manifests.read(_fetched(engine, weights.session_id, address, length), total)
        if manifest is None:
            raise Moved(f"the memory at {weights.session_id} is not what was published there: its seed started anew")
        check_manifest(held, told, manifest, shard)
    return Offer(publication.seed, weights.rank, weights.session_id, publication.identity, told, manifest)


def _fetched(engine: TransferEngine, session: str, address: int, length: int) -> bytes:
    desk = Segment(length)
    try:
        engine.register(desk)
        try:
            engine.read(session, [(desk.address, address, length)])
            with desk.view() as view:
                return bytes(view)
        except TransferFailed as problem:
            if problem.settled:
                raise
            # Its memory goes away now: nothing may write there any more.
            engine.reset()
            raise TransferFailed(str(problem), settled=True) from None
        finally:
            engine.unregister(desk)
    finally:
        desk.close()
