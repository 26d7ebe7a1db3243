"""What SGLang's senders and receivers show of the way of a room, noted without waiting and without asking anybody.

A prefill knows that it has the room (registered) and that the decode's metadata came (connected); a decode knows the ranks
that it was given (resolved), and, when it takes the KV into its request, that the metadata was that room's (verified,
consumed). Failures are told by the rank that knows why; of what went well the first rank of a DP group tells.
(SGLang 0.5.23: disaggregation/common/conn.py, disaggregation/decode.py.)
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.addresses import bracketed
from controlplane.domain.claims import PASSED
from controlplane.domain.reports import MAX_ROOM, is_sampled
from workers.sdk import BadAddress, read_place
from workers.sdk.reports import plain

log = logging.getLogger(__name__)

FAILED, WAITING_FOR_INPUT = 0, 2
"""KVPoll (disaggregation/base/conn.py)."""

MOST_PREFILLS = 1024
WORDS = (("timed out", "timed_out"), ("Aborted", "aborted"), ("Lost connection", "lost"), ("conflict", "conflict"))

Note = Callable[..., None]
"""`note(room, instance, rung, result, detail=…)`; it never waits."""


@dataclass
class Way:
    """What is kept with a receiver: whose room it is (a name, or a rank's `ip:port`), and whether its failure is told."""

    instance: str
    told: bool = False


class Rooms:
    """`name()` is the instance of this engine. `share` of the rooms without a failure is told of."""

    def __init__(self, note: Note, name: Callable[[], str | None], *, share: float = 1.0) -> None:
        self._note, self._name, self._share = note, name, share
        # By bootstrap address: the last rank that it named.
        self._prefills: OrderedDict[str, str] = OrderedDict()

    # A prefill's side: CommonKVSender.

    def opened(self, _: Any, sender: Any, *args: Any, **named: Any) -> None:
        """After `__init__`."""
        manager, room = sender.kv_mgr, sender.bootstrap_room
        if getattr(manager, "is_dummy_cp_rank", False):
            return
        if manager.request_status.get(room) == FAILED:
            self._failed(manager, room, self._name(), "registered")
        elif is_leader(manager):
            self._passed(room, self._name(), "registered", f"dp{dp_of(manager)}")

    def bootstrapped(self, _: Any, sender: Any, *args: Any, **named: Any) -> None:
        """After `init`: the scheduler calls it once the decode's metadata is there."""
        manager, room = sender.kv_mgr, sender.bootstrap_room
        if is_leader(manager) and (manager.request_status.get(room) or FAILED) >= WAITING_FOR_INPUT:
            self._passed(room, self._name(), "connected", "the decode has asked")

    def sender_failed(self, sender: Any) -> None:
        """Before `failure_exception`, which raises and forgets."""
        rung = "connected" if getattr(sender, "aux_index", None) is None else "verified"
        self._failed(sender.kv_mgr, sender.bootstrap_room, self._name(), rung)

    # A decode's side: CommonKVReceiver, DecodeTransferQueue.

    def resolved(self, _: Any, receiver: Any, *args: Any, **named: Any) -> None:
        """After `init`."""
        way = self._way(receiver)
        if way is None:
            return
        receiver._pd_way = way
        if receiver.conclude_state == FAILED:
            self._failed(receiver.kv_mgr, receiver.bootstrap_room, way.instance, "resolved")
            way.told = True
        elif is_leader(receiver.kv_mgr):
            dp = getattr(receiver, "prefill_dp_rank", None)
            self._passed(receiver.bootstrap_room, way.instance, "resolved", "" if dp is None else f"dp{dp}")

    def receiver_failed(self, receiver: Any) -> None:
        """Before `failure_exception`."""
        way = getattr(receiver, "_pd_way", None) or self._way(receiver)
        if way is None or way.told:
            return
        # Its metadata went out at `init_time`; what became of it after that only the prefill can tell.
        rung = "connected" if getattr(receiver, "init_time", None) is None else "verified"
        self._failed(receiver.kv_mgr, receiver.bootstrap_room, way.instance, rung)

    def committed(self, original: Callable[..., Any], queue: Any, request: Any, *args: Any, **named: Any) -> Any:
        """Around `_commit_transfer_to_req`, which lets the receiver go."""
        receiver = getattr(request, "kv_receiver", None)
        result = original(queue, request, *args, **named)
        try:
            self._taken(receiver, request.req)
        except Exception:
            log.debug("a room that was taken could not be told of", exc_info=True)
        return result

    def _taken(self, receiver: Any, req: Any) -> None:
        way = getattr(receiver, "_pd_way", None)
        if way is None:
            return
        room, refused = receiver.bootstrap_room, getattr(req, "finished_reason", None)
        if refused is not None:
            why = str(getattr(refused, "message", refused))
            self._say(room, way.instance, "verified", "wrong_room" if "mismatch" in why else "failed", why)
        elif is_leader(receiver.kv_mgr):
            self._passed(room, way.instance, "connected", "the prefill has answered")
            self._passed(room, way.instance, "verified", "")
            self._passed(room, way.instance, "consumed", "")

    def _way(self, receiver: Any) -> Way | None:
        """By the ranks it was given; else by the last that this address named, or by the name that is part of it."""
        address, infos = receiver.bootstrap_addr, getattr(receiver, "bootstrap_infos", None)
        if infos:
            rank = f"{bracketed(infos[0]['rank_ip'])}:{infos[0]['rank_port']}"
            self._prefills[address] = rank
            self._prefills.move_to_end(address)
            if len(self._prefills) > MOST_PREFILLS:
                self._prefills.popitem(last=False)
        if "@" in address:
            try:
                named = read_place(address).instance
            except BadAddress:
                named = None
            if named is not None:
                return Way(named)
        known = self._prefills.get(address)
        return Way(known) if known is not None else None

    def _passed(self, room: Any, instance: str | None, rung: str, detail: str) -> None:
        if room is not None and is_sampled(room, self._share):
            self._say(room, instance, rung, PASSED, detail)

    def _failed(self, manager: Any, room: Any, instance: str | None, rung: str) -> None:
        """Only where this rank knows why: another one does when it does not."""
        reason = manager.failure_records.get(room)
        if reason is not None:
            self._say(room, instance, rung, word_of(str(reason)), str(reason))

    def _say(self, room: Any, instance: str | None, rung: str, result: str, detail: str) -> None:
        """One item that cannot be read would have a whole batch refused."""
        if instance is not None and isinstance(room, int) and 0 <= room <= MAX_ROOM:
            self._note(room, instance, rung, result, detail=plain(detail))


def word_of(reason: str) -> str:
    """One word for what SGLang says of a failure.

    >>> word_of("Request 7 timed out after 300.0s in KVPoll.Bootstrapping"), word_of("no memory")
    ('timed_out', 'failed')
    """
    return next((word for part, word in WORDS if part in reason), "failed")


def is_leader(manager: Any) -> bool:
    return not (manager.attn_tp_rank or manager.attn_cp_rank or manager.pp_rank)


def dp_of(manager: Any) -> int:
    """The DP rank that counts: of whole replicas the system's."""
    return int(manager.attn_dp_rank if manager.system_dp_size == 1 else manager.system_dp_rank)


class OpenRooms:
    """How many rooms the managers of this process have open, by DP rank: what SGLang itself keeps of them, from a sender's
    beginning to its `clear`."""

    def __init__(self) -> None:
        self._managers: dict[int, Any] = {}

    def add(self, manager: Any) -> bool:
        """Whether it is the first."""
        self._managers = {**self._managers, id(manager): manager}
        return len(self._managers) == 1

    def remove(self, manager: Any) -> None:
        self._managers = {key: other for key, other in self._managers.items() if key != id(manager)}

    def __call__(self) -> Mapping[int, int]:
        counts: Counter[int] = Counter()
        for manager in self._managers.values():
            held = manager.request_status
            # Of a pipeline it is a PPConsensusStore, with what is known here in a map of its own.
            counts[dp_of(manager)] += len(getattr(held, "_local_map", held))
        return counts
