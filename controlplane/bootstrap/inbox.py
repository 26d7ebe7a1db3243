"""What others changed: the bootstrap process reads the ledger like everybody else, and answers the request inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import structlog

from controlplane.domain.contact import Contact
from controlplane.domain.directory import Registration
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.probes.sweep import Prober, Target

from .fleet import Fleet, Instance, Observed
from .loading import rows
from .operations import Ordered, Requested
from .purging import Purge
from .recorder import Recorder

log = structlog.get_logger()

POLL_SECONDS = 0.25
OTHERS = """
SELECT revision, kind, instance, data FROM controlplane_event
WHERE revision > %s AND kind IN (
 'instance.added', 'instance.changed', 'instance.retired', 'instance.purged', 'intent.changed', 'request.made', 'token.made',
 'token.revoked')
ORDER BY revision"""
HEAD = "SELECT revision FROM controlplane_ledgerhead WHERE id = 1"
INSTANCE = """
SELECT id, name, role, intent, own_port, host_alias, observed_url, observed_engine_info_url, engine_url, engine_key
FROM controlplane_instance WHERE name = %s"""
INTENT = "SELECT id, intent FROM controlplane_instance WHERE name = %s"
DRAINING = """SELECT "group" FROM controlplane_groupintent WHERE instance_id = %s AND intent = 'draining'"""
PENDING = """
SELECT id, kind, instance, slot, launch, override, actor, reason, made_at FROM controlplane_request
WHERE answered_at IS NULL ORDER BY id LIMIT 100"""
LEFT = """
SELECT r.dp, r.cp, r.tp, r.pp, r.ip, r.port, r.http_port, r.flags, l.dp, l.cp, l.tp, l.pp, l.facts, l.token
FROM controlplane_rank r JOIN controlplane_launch l ON l.instance_id = r.instance_id AND l.number = r.launch
WHERE r.instance_id = %s AND r.left_at IS NOT NULL AND r.launch = (
 SELECT MAX(launch) FROM controlplane_rank WHERE instance_id = %s AND left_at IS NOT NULL)
ORDER BY r.dp, r.cp, r.tp, r.pp"""
LEASES = "SELECT COUNT(*) FROM controlplane_workerlease WHERE instance_id = %s AND expires_at > %s"


class Inbox:
    """Polls at most every POLL_SECONDS; a wake-up only makes it sooner."""

    def __init__(
        self,
        fleet: Fleet,
        recorder: Recorder,
        prober: Prober,
        *,
        changed: Callable[[], None],
        tokens_changed: Callable[[], Awaitable[None]],
        observe: Callable[[Instance], Awaitable[tuple[bool, str]]],
        revision: int,
    ) -> None:
        self._fleet = fleet
        self._recorder = recorder
        self._prober = prober
        self._changed = changed
        self._tokens_changed = tokens_changed
        self._observe = observe
        self._revision = revision
        self._thread = ThreadPoolExecutor(1, "inbox")
        self._working: set[int] = set()
        # Answered since the requests were last read: that reading may still show them as open.
        self._answered: set[int] = set()
        self._polls: set[asyncio.Task[None]] = set()
        self.wake = asyncio.Event()

    @property
    def revision(self) -> int:
        """How far it has read."""
        return self._revision

    async def follow_forever(self) -> None:
        first = True
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self.wake.wait()
            except TimeoutError:
                pass
            self.wake.clear()
            try:
                if first:
                    await self._take_requests()
                    first = False
                await self._follow()
            except Exception as problem:
                log.warning("ledger_not_read", problem=str(problem)[:300])
                await asyncio.sleep(1)

    def close(self) -> None:
        for poll in self._polls:
            poll.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, rows, sql, values)

    async def _follow(self) -> None:
        (head,) = (await self._read(HEAD))[0]
        if head == self._revision:
            return
        events = await self._read(OTHERS, (self._revision,))
        if any(kind.startswith("token.") for _, kind, _, _ in events):
            await self._tokens_changed()
        for _, kind, name, data in events:
            if kind == "instance.purged":
                self._remove(msgspec.json.decode(data)["id"])
            elif kind.startswith("instance."):
                await self.load(name)
            elif kind == "intent.changed":
                await self._take_intent(name)
        self._revision = head
        if any(kind == "request.made" for _, kind, _, _ in events):
            await self._take_requests()

    async def load(self, name: str) -> Instance | None:
        """Bring one instance's row, as operators have it now, into memory."""
        found = await self._read(INSTANCE, (name,))
        if not found:
            return None
        id_, name, role, intent, own_port, alias, *observed = found[0]
        known = self._fleet.by_name.get(name)
        if known is not None and known.id != id_:
            # It was purged, which we have not read yet, and is there anew.
            self._fleet.remove(known)
            known = None
        if known is None:
            known = Instance(id_, name, role, intent, own_port, alias, observed=Observed(*observed))
            self._fleet.add(known)
        else:
            known.observed = Observed(*observed)
            known.role, known.intent, known.own_port, known.host_alias = role, intent, own_port, alias
            # Whoever was retired has no DP groups that drain, and has none either when it is added again.
            known.draining = await self._draining(id_)
            self._fleet.reindex()
        self._changed()
        return known

    async def _take_intent(self, name: str) -> None:
        """Only what heartbeats are told depends on it: answers stay as they are, for rooms in flight still resolve."""
        known = self._fleet.by_name.get(name) or await self.load(name)
        if known is not None:
            for id_, known.intent in await self._read(INTENT, (name,)):
                known.draining = await self._draining(id_)

    async def _draining(self, id_: int) -> frozenset[int]:
        return frozenset(group for (group,) in await self._read(DRAINING, (id_,)))

    async def _take_requests(self) -> None:
        self._answered.clear()
        for id_, kind, name, slot, launch, override, actor, reason, made_at in await self._read(PENDING):
            if id_ in self._working or id_ in self._answered:
                continue
            self._working.add(id_)
            try:
                if kind == "purge":
                    # Beside the inbox: whoever does not answer takes a while.
                    self._beside(self._purge(id_, name, bool(override), actor, reason))
                else:
                    await self._grant(id_, kind, name, slot, launch, actor, reason, made_at)
            finally:
                self._working.discard(id_)

    async def _purge(self, id_: int, name: str, override: bool, actor: str, reason: str) -> None:
        self._working.add(id_)
        try:
            # As operators have it now: it may have been retired a moment ago.
            instance = await self.load(name)
            if instance is None:
                return
            # Who is retired is not asked any more by anybody else, so what is known of its ranks is old.
            known = {
                Target(row.ip, row.port): row.contact
                for launch in instance.directory.launches()
                for row in launch.rows.values()
            }
            heard = await self._prober.probe_many(known)
            # Of whom we may not or could not ask, the last word counts.
            said_last = {target: known[target] if now is Contact.UNPROBED else now for target, now in heard.items()}
            alive = sum(contact is Contact.UP for contact in said_last.values())
            said: dict[str, Any] = {"request": id_, "override": override, "actor": actor, "reason": reason}
            await self._submit(Purge(instance, answering=alive, **said))
        finally:
            self._working.discard(id_)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._polls.add(task)
        task.add_done_callback(self._polls.discard)

    def _remove(self, id_: int) -> None:
        known = self._fleet.by_id.get(id_)
        if known is not None:
            self._fleet.remove(known)
            self._changed()

    async def _grant(
        self, id_: int, kind: str, name: str, slot: str, launch: int | None, actor: str, reason: str, made_at: float
    ) -> None:
        instance = self._fleet.named(name) or await self.load(name)
        if instance is None:
            log.warning("request_without_instance", request=id_, instance=name)
            return
        where = Slot(*map(int, slot.split("."))) if slot else None
        puts: list[Registration] = []
        note = ""
        if kind in ("readmit", "reregister") and instance.observed:
            # It does not register here: what its own servers say now is all that can be had.
            self._beside(self._grant_observed(instance, id_, kind, where, actor, reason))
            return
        if kind == "reregister":
            asked = (await self._read(LEASES, (instance.id, made_at)))[0][0]
            if asked:
                instance.reregister_before = made_at
                note = f"{asked} worker processes are told to register again with their next heartbeat"
        told = bool(note)
        if kind in ("readmit", "reregister") and not told:
            puts, note = await self._who_answers(instance, where)
        asked_for: dict[str, Any] = {"request": id_, "kind": kind, "slot": where, "actor": actor, "reason": reason}
        await self._submit(Ordered(instance, **asked_for, launch=launch, puts=puts, note=note, told=told))

    async def _submit(self, requested: Requested) -> None:
        await self._recorder.submit(requested)
        self._answered.add(requested.request)

    async def _grant_observed(
        self, instance: Instance, id_: int, kind: str, slot: Slot | None, actor: str, reason: str
    ) -> None:
        """Beside the inbox: who is asked may take a while, and others must not wait for that."""
        self._working.add(id_)
        try:
            try:
                read, said = await self._observe(instance)
            except Exception as problem:
                log.warning("observed_not_read", instance=instance.name, problem=repr(problem)[:300])
                read, said = False, f"{instance.name} could not be read at its own servers; try again"
            note = f"{instance.name} was read anew at its own servers: {said}" if read else said
            asked_for: dict[str, Any] = {"request": id_, "kind": kind, "slot": slot, "actor": actor, "reason": reason}
            await self._submit(Ordered(instance, **asked_for, puts=[], note=note, told=read))
        finally:
            self._working.discard(id_)

    async def _who_answers(self, instance: Instance, slot: Slot | None) -> tuple[list[Registration], str]:
        """The last known rows that answer a probe now, as registrations; and who does not, in a sentence."""
        known = [_registration(values) for values in await self._read(LEFT, (instance.id, instance.id))]
        wanted = [put for put in known if slot is None or put.slot == slot]
        if not wanted:
            current = instance.directory.current
            if current is not None and (slot is None or slot in current.rows):
                who = "every rank that is known" if slot is None else str(slot)
                return (
                    [],
                    f"{who} is registered already, and there is no worker of ours that could be told to do it again",
                )
            return [], "no rank that left is known; restart the engine so that it registers"
        heard = await self._prober.probe_many(Target(put.ip, put.port) for put in wanted)
        alive = [put for put in wanted if heard[Target(put.ip, put.port)] is Contact.UP]
        dead = [put for put in wanted if put not in alive]
        note = ""
        if dead:
            first = dead[0]
            note = (
                f"{len(dead)} of {len(wanted)} do not answer (first: {first.slot} at {first.ip}:{first.port}):"
                " restart the engine so that they register"
            )
        return alive, note


def _registration(values: tuple[Any, ...]) -> Registration:
    dp, cp, tp, pp, ip, port, http_port, flags, *sizes, facts, token = values
    return Registration(
        Slot(dp, cp, tp, pp),
        Topology(*sizes),
        SharedFacts(**msgspec.json.decode(facts)),
        ip,
        port,
        http_port,
        token,
        tuple(flags.split(",")) if flags else (),
    )
