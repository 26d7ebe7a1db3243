"""What can be asked of the recorder: each operation stages one decision of the domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controlplane.domain import orders
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Registration
from controlplane.domain.engines import EngineEntry, observe_sessions, publish, retire_before
from controlplane.domain.errors import Refused
from controlplane.domain.events import Event, LaunchPromoted
from controlplane.domain.launch import Address, Launch
from controlplane.domain.observation import observe
from controlplane.domain.registration import register
from controlplane.domain.topology import Slot
from controlplane.ledger.writes import DROP_BODY, KEEP_BODY, MEET, Writes
from controlplane.protocol.engine_info import Publication
from controlplane.protocol.engine_info import refusal as engine_refusal
from controlplane.protocol.replies import OK

from .fleet import Instance
from .recorder import Operation, Staged

# The first answer stands, whoever asks again.
ANSWER = """
UPDATE controlplane_request SET answered_at = %s, granted = %s, answer = %s WHERE id = %s AND answered_at IS NULL"""


class Register(Operation):
    """`PUT /route`."""

    __slots__ = ("complain", "put", "source")

    def __init__(self, instance: Instance, put: Registration, source: str, complain: Callable[[Refused], None]) -> None:
        super().__init__(instance)
        self.put = put
        self.source = source
        self.complain = complain

    def refuse(self, refused: Refused) -> None:
        if self.reply is OK:
            # Once, however often its batch has to be tried.
            self.complain(refused)
        super().refuse(refused)

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        self.instance.check_writable("ranks")
        before = staged.directory.current
        decision = register(staged.directory, self.put, now, staged.workspace)
        staged.apply(decision, writes, now)
        staged.sources[self.put.address] = self.source
        if self.put.home:
            staged.homes.add(self.put.address)
        retire_engines_of(before, staged, writes, now, decision.events)
        if decision.refused is not None:
            raise decision.refused
        self.reply = OK


class Observe(Operation):
    """A round of probes."""

    __slots__ = ("sessions", "verdicts")

    def __init__(
        self, instance: Instance, verdicts: Mapping[Address, Contact], sessions: Mapping[str, Contact] | None = None
    ) -> None:
        super().__init__(instance)
        self.verdicts = verdicts
        self.sessions = sessions or {}

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        if self.verdicts:
            before = staged.directory.current
            decision = observe(staged.directory, self.verdicts, now)
            staged.apply(decision, writes, now)
            retire_engines_of(before, staged, writes, now, decision.events)
        if self.sessions:
            heard = observe_sessions(staged.engines, self.sessions, now)
            staged.engines = heard.table
            writes.add_engine(self.instance.id, self.instance.name, heard.events, now)
            for entry in heard.met:
                seen = (entry.greeted, entry.contact.value, self.instance.id, entry.rank, entry.epoch)
                writes.ordered.append((MEET, seen))
            staged.sessions_again |= heard.again


class PublishEngine(Operation):
    """`PUT /register_transfer_engine_info`."""

    __slots__ = ("observed", "probeable", "publication", "refused")

    def __init__(
        self, instance: Instance, publication: Publication, *, probeable: bool, observed: bool = False
    ) -> None:
        super().__init__(instance)
        self.publication = publication
        self.probeable = probeable
        self.observed = observed
        self.refused: Refused | None = None

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        if self.observed:
            self.instance.check_there()
        else:
            self.instance.check_writable("weights")
        p = self.publication
        entry = EngineEntry(
            p.rank, p.session, p.digest, p.tensors, p.total_bytes, now, p.old_style, probeable=self.probeable
        )
        before = staged.engines.live.get(p.rank)
        staged.engines, events = publish(staged.engines, entry)
        if events:
            writes.ordered.append((KEEP_BODY, (p.digest, p.compressed, p.size_bytes)))
            writes.add_engine(self.instance.id, self.instance.name, events, now)
            if before is not None and before.digest != p.digest:
                writes.last.append((DROP_BODY, (before.digest,)))
        staged.sessions.add(p.session)
        if rival := staged.engines.live.get(p.rank):
            staged.sessions.add(rival.session)
        self.reply = OK

    def refuse(self, refused: Refused) -> None:
        self.refused = refused
        self.reply = engine_refusal(refused)


class Doubt(Operation):
    """A rank of another instance registered from an address that is registered here."""

    __slots__ = ("address",)

    def __init__(self, instance: Instance, address: Address) -> None:
        super().__init__(instance)
        self.address = address

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        staged.apply(orders.doubt(staged.directory, self.address, now=now), writes, now)


class Flushed(Operation):
    """Every decode that polled was told twice: the flush is over."""

    __slots__ = ()

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        staged.apply(orders.flushed(staged.directory, now=now), writes, now)


class Requested(Operation):
    """A request of an operator from the inbox. Granted or not, its answer is stored with an event."""

    __slots__ = ("actor", "kind", "reason", "request")

    def __init__(self, instance: Instance, *, request: int, kind: str, actor: str, reason: str) -> None:
        super().__init__(instance)
        self.request = request
        self.kind = kind
        self.actor = actor
        self.reason = reason

    def carry_out(self, staged: Staged, writes: Writes, now: float) -> str:
        """What was done, in a sentence. Raises Refused, with nothing staged."""
        raise NotImplementedError

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        try:
            answer, granted = self.carry_out(staged, writes, now), True
        except Refused as refused:
            answer, granted = refused.sentence, False
        writes.ordered.append((ANSWER, (now, granted, answer, self.request)))
        data = {"request": self.request, "kind": self.kind, "granted": granted, "answer": answer}
        writes.note_plain(staged.instance.name, "request.answered", data, now, actor=self.actor, reason=self.reason)


class Ordered(Requested):
    """Evict, supersede, re-admit or re-register."""

    __slots__ = ("launch", "note", "puts", "slot", "told")

    def __init__(
        self,
        instance: Instance,
        *,
        request: int,
        kind: str,
        slot: Slot | None,
        launch: int | None = None,
        actor: str,
        reason: str,
        puts: list[Registration],
        note: str,
        told: bool,
    ) -> None:
        super().__init__(instance, request=request, kind=kind, actor=actor, reason=reason)
        self.slot = slot
        self.launch = launch
        self.puts = puts
        self.note = note
        self.told = told

    def carry_out(self, staged: Staged, writes: Writes, now: float) -> str:
        if self.kind == "evict":
            why = f"evicted by {self.actor}" + (f": {self.reason}" if self.reason else "")
            decision = orders.evict(staged.directory, self.slot, why=why, now=now, launch=self.launch)
            staged.apply(decision, writes, now, actor=self.actor, reason=self.reason)
            of = staged.instance.name if self.launch is None else f"launch {self.launch} of {staged.instance.name}"
            return f"{self.slot or 'every rank'} of {of} was evicted"
        if self.kind == "supersede":
            decision = orders.supersede(staged.directory, now=now, launch=self.launch)
            staged.apply(decision, writes, now, actor=self.actor, reason=self.reason)
            current = decision.directory.current
            return f"launch {current.number if current else 0} is current"
        if not self.puts:
            if self.told:
                return self.note
            raise Refused(self.note)
        decisions, directory = [], staged.directory
        for put in self.puts:
            decision = register(directory, put, now)
            if decision.refused is not None:
                # All of them or none.
                raise decision.refused
            directory = decision.directory
            decisions.append(decision)
        for decision in decisions:
            staged.apply(decision, writes, now, actor=self.actor, reason=self.reason)
        back = ", ".join(str(put.slot) for put in self.puts[:4]) + (", …" if len(self.puts) > 4 else "")
        how_many = "1 rank answered and is" if len(self.puts) == 1 else f"{len(self.puts)} ranks answered and are"
        return f"{how_many} registered again: {back}" + (f"; {self.note}" if self.note else "")


def retire_engines_of(
    before: Launch | None, staged: Staged, writes: Writes, now: float, events: tuple[Event, ...]
) -> None:
    """Engine info of a replaced launch ends with it: what was published before that launch was full."""
    promoted = any(isinstance(e, LaunchPromoted) and e.complete and e.replaced is not None for e in events)
    if not promoted or before is None or before.full_at is None:
        return
    staged.engines, retired = retire_before(staged.engines, before.full_at, f"launch {before.number} was replaced")
    writes.add_engine(staged.instance.id, staged.instance.name, retired, now)


def with_origin(put: Registration, flags: tuple[str, ...], *, home: bool) -> Registration:
    """The registration with what its sender's address says. Written out: replace() costs more than parsing does."""
    if not flags and not home:
        return put
    return Registration(put.slot, put.topology, put.facts, put.ip, put.port, put.http_port, put.token, flags, home)
