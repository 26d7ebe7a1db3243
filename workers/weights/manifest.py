"""What a seed promises of its tensors beyond the wire's three numbers, and how the wire's dictionary carries it.

The dictionary that SGLang's seeds publish says of each tensor where it lies, how many elements it has and how large they are. A
seed of ours also keeps a manifest in memory that peers can read, and points to it with an entry of the same dictionary, whose
name holds the manifest's SHA-256: whoever reads it and finds another sum reads the memory of another process. SGLang's loader
looks up the names of its own parameters only, so it loads from such a seed too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from workers.sdk.engine_info import Tensor
from workers.transfer.layout import Place as Shard

from .errors import Unfit

PREFIX = "pd-weights/1/"
BOOK, CONTENT, CHAIN = f"{PREFIX}manifest/", f"{PREFIX}content/", f"{PREFIX}from/"
MAX_BYTES = 64 * 2**20
MAX_CHAIN = 16


class Promise(msgspec.Struct, array_like=True, frozen=True):
    """`dtype` is torch's word without `torch.`; `digest` as `digest.digest_of` makes it."""

    dtype: str
    shape: tuple[int, ...]
    digest: str


class Origin(msgspec.Struct, array_like=True, frozen=True):
    """Who was pulled from: the name of the seed, the world rank, and the session then."""

    seed: str
    rank: int
    session: str


class Manifest(msgspec.Struct, frozen=True):
    """`chain`: where these weights came from, the nearest first; empty for a seed that did not pull them."""

    tp_rank: int
    tp_size: int
    pp_rank: int
    pp_size: int
    tensors: dict[str, Promise]
    chain: tuple[Origin, ...] = ()

    @property
    def content(self) -> str:
        """One name for all of the weights: equal for two seeds when every tensor is, and the rank is the same."""
        place = (self.tp_rank, self.tp_size, self.pp_rank, self.pp_size)
        return hashlib.sha256(msgspec.json.encode((place, sorted(self.tensors.items())))).hexdigest()[:32]


DECODER = msgspec.json.Decoder(Manifest)


def world_rank(shard: Shard) -> int:
    """The number by which SGLang's engines publish a rank.

    >>> world_rank(Shard(tp_rank=1, tp_size=4, pp_rank=2, pp_size=3))
    9
    """
    return shard.pp_rank * shard.tp_size + shard.tp_rank


def entries(manifest: Manifest, raw: bytes, address: int) -> dict[str, Tensor]:
    """What the dictionary of a seed holds beside its tensors; only the first has bytes, the others are for people to read."""
    made: dict[str, Tensor] = {
        BOOK + hashlib.sha256(raw).hexdigest(): (address, len(raw), 1),
        CONTENT + manifest.content: (0, 0, 1),
    }
    for hop, origin in enumerate(manifest.chain, 1):
        made[f"{CHAIN}{hop}/{origin.seed}/{origin.rank}"] = (0, 0, 1)
    return made


def book_in(told: Mapping[str, Tensor]) -> tuple[str, int, int] | None:
    """The sum, address and length of the manifest that a dictionary points to; None for seeds that have none.

    Raises Unfit when there are several, or one that cannot be meant.
    """
    found = [(name.removeprefix(BOOK), *tensor) for name, tensor in told.items() if name.startswith(BOOK)]
    if not found:
        return None
    if len(found) > 1:
        raise Unfit(f"it points to {len(found)} manifests; update it, or have it publish again")
    total, address, length, item = found[0]
    if item != 1 or not 0 < length <= MAX_BYTES:
        raise Unfit(f"its manifest has {length * item} bytes; between 1 and {MAX_BYTES} are read")
    return total, address, length


def read(raw: bytes | memoryview, total: str) -> Manifest | None:
    """The manifest; None when `raw` is something else, because the memory belongs to another process by now."""
    if hashlib.sha256(raw).hexdigest() != total:
        return None
    try:
        return DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise Unfit(f"its manifest cannot be read ({problem}); seed and loader must be of one version") from None


def longer(origin: Origin, chain: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """The chain of whoever pulled from `origin`, whose own chain is `chain`."""
    return (origin, *chain)[:MAX_CHAIN]
