"""The SDK of workers: register, find one another, bind rooms, publish weights and report, at a control plane or at a plain
SGLang bootstrap server.

    from workers.sdk import Client, ControlPlane, Question, Rank, own_address, read_decode

    plane = ControlPlane.at("cp.rack:8998", api="http://cp.rack:8000", instance="prefill-a", token=secret)
    with Client(plane) as client:                       # or: async with AsyncClient(plane) as client
        # prefill
        here = own_address(plane.kv)
        rank = Rank(rank_ip=here.host, rank_port=41000, page_size=64)
        client.register([rank]).wait(within=30)         # it is kept registered from now on, whoever restarts
        client.bind(room, rank)
        # decode
        prefill = client.until_ready(Question(read_decode({"tp_size": 1, "is_mla": False})), within=30)
        for target in prefill.targets(client.dp_of(room, prefill)):
            ...                                         # target.endpoint, target.dummy
        client.invalidate(prefill)                      # when a rank refused: a newer answer is left alone

Every call ends within its bound, and every error is a `WorkerError`: a sentence, and the HTTP status that would say it.
Needs msgspec and this package alone: no torch, no Django.
"""

from controlplane.domain.decodes import Decode

from .blocking import Client, Registered
from .client import AsyncClient
from .engine_info import EngineInfo, Patience, Weights, order_of, start_slot
from .errors import (
    BadAddress,
    BadDecode,
    BadRank,
    BrokenOff,
    Closed,
    Disagreement,
    Garbled,
    Incompatible,
    NotAdvertisable,
    NotAllowed,
    NotBound,
    NotFound,
    NotReady,
    Overloaded,
    Refusal,
    RoomInUse,
    TimedOut,
    TooLarge,
    Unreachable,
    WorkerError,
)
from .identity import launch_token, worker_name
from .keeper import Keeper
from .keeping import Speaks, Standing
from .minting import Mint
from .own_address import OwnAddress, own_address
from .places import Place, check_published, is_fake, read_place, read_port, requested_place
from .ranks import Rank, effective_dp
from .resolved import Question, RankTargets, Resolved, Target, read_decode
from .servers import ControlPlane
from .tokens import TokenFile
from .uses import Use, Uses

__all__ = [
    "AsyncClient",
    "BadAddress",
    "BadDecode",
    "BadRank",
    "BrokenOff",
    "Client",
    "Closed",
    "ControlPlane",
    "Decode",
    "Disagreement",
    "EngineInfo",
    "Garbled",
    "Incompatible",
    "Keeper",
    "Mint",
    "NotAdvertisable",
    "NotAllowed",
    "NotBound",
    "NotFound",
    "NotReady",
    "Overloaded",
    "OwnAddress",
    "Patience",
    "Place",
    "Question",
    "Rank",
    "RankTargets",
    "Refusal",
    "Registered",
    "Resolved",
    "RoomInUse",
    "Speaks",
    "Standing",
    "Target",
    "TimedOut",
    "TokenFile",
    "TooLarge",
    "Unreachable",
    "Use",
    "Uses",
    "Weights",
    "WorkerError",
    "check_published",
    "effective_dp",
    "is_fake",
    "launch_token",
    "order_of",
    "own_address",
    "read_decode",
    "read_place",
    "read_port",
    "requested_place",
    "start_slot",
    "worker_name",
]
