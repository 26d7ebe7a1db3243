"""From whom a rank pulls: seeds by the name of their instance at the control plane, or by the address of their own server."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from workers.sdk import Client, ControlPlane, Patience, Place, Weights, order_of, read_place
from workers.sdk.places import ENGINE_INFO_PORT

from .errors import WeightsError

FETCH = Patience(total=15.0, each=10.0, stall=5.0)


@dataclass(frozen=True, slots=True)
class Publication:
    """What a seed publishes just now. `identity` is another one as soon as the session or any number is."""

    seed: str
    weights: Weights

    @property
    def identity(self) -> str:
        return f"{self.weights.session_id} {hashlib.sha256(self.weights.raw).hexdigest()}"


class Sources:
    """`seeds`: names (`seed-a`), looked up at the control plane, and `HOST:PORT` of any engine-info server or engine (SGLang's
    too). They are asked anew each time: an answer that was kept could name a session that is gone.

    `receiver`: a name of whoever pulls; it decides who is asked first, so that many receivers spread over the seeds.
    """

    def __init__(self, plane: ControlPlane | None, seeds: Sequence[str], *, receiver: str) -> None:
        if not seeds:
            raise WeightsError("there is no seed to pull from: name at least one")
        self._planes: dict[str, ControlPlane] = {}
        self._clients: dict[str, Client] = {}
        places = [self._place(seed, plane) for seed in dict.fromkeys(seeds)]
        self.order = [name_of(place) for place in order_of(places, receiver)]

    def fetch(self, seed: str, rank: int, *, within: float = FETCH.total) -> Publication:
        """Raises WorkerError: NotFound while it has not published, Unreachable while nobody answers."""
        if seed not in self._clients:
            self._clients[seed] = Client(self._planes[seed])
        patience = replace(FETCH, total=max(0.1, min(within, FETCH.total)))
        return Publication(seed, self._clients[seed].fetch_weights(rank, patience=patience))

    def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _place(self, seed: str, plane: ControlPlane | None) -> Place:
        if ":" in seed or "/" in seed:
            place = read_place(seed, default_port=ENGINE_INFO_PORT, what="the address of a seed")
            self._planes[name_of(place)] = ControlPlane(place, replace(place, instance=None), instance=place.instance)
            return place
        if plane is None:
            raise WeightsError(f"{seed} is the name of an instance: name the control plane that knows it, or HOST:PORT")
        try:
            self._planes[seed] = replace(plane, instance=check_name(seed))
        except Refused as problem:
            raise WeightsError(problem.sentence) from None
        return replace(plane.engine, instance=seed)


def name_of(place: Place) -> str:
    """As it stands in sentences: the instance, else the address."""
    return place.instance if place.instance is not None else f"{place}{place.prefix}"
