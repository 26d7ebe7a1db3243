"""All instances in memory: published values that look-ups read, and where each can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from controlplane.domain.directory import Directory
from controlplane.domain.engines import EngineTable
from controlplane.domain.errors import Refused
from controlplane.domain.health import Pollers
from controlplane.domain.launch import Address
from controlplane.domain.rooms import Rooms
from controlplane.protocol.replies import Reply

from .leases import Leases

MAX_INSTANCES = 20_000
MAX_HOLDERS = 500_000
DEFAULT_NAME = "default"


@dataclass(frozen=True, slots=True)
class Observed:
    """Where an instance is asked that does not register here; `key` (sealed) is for its engine alone."""

    url: str = ""
    info_url: str = ""
    engine_url: str = ""
    key: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.url or self.info_url)


NOT_OBSERVED = Observed()


class Ambiguous(Refused):
    """Several instances share a listener, and a request names none of them; `one` is among those that it could mean."""

    def __init__(self, sentence: str, one: Instance) -> None:
        super().__init__(sentence, code="unavailable")
        self.one = one


MAX_RESOLVED_BYTES = 4 * 2**20
"""Of the answers to whole questions that are kept for one instance."""


@dataclass(slots=True, eq=False)
class Instance:
    """One instance's published values. Only the recorder replaces them, after a commit."""

    id: int
    name: str
    role: str = "prefill"
    intent: str = "enabled"
    own_port: int | None = None
    host_alias: str | None = None
    directory: Directory = field(default_factory=lambda: Directory(""))
    engines: EngineTable = field(default_factory=EngineTable)
    pollers: Pollers = field(default_factory=Pollers)
    # Answers that are the same bytes until the directory changes, and raw requests that were answered with them.
    answers: dict[bytes, Reply] = field(default_factory=dict)
    unlearn: list[Callable[[], None]] = field(default_factory=list)
    # Likewise, of whole questions that decodes asked, which may be large.
    resolved: dict[bytes, Reply] = field(default_factory=dict)
    resolved_bytes: int = 0
    # Workers whose rows are older than this are told to register again with their next heartbeat.
    reregister_before: float = 0.0
    # DP groups that are draining while the rest goes on.
    draining: frozenset[int] = frozenset()
    observed: Observed = NOT_OBSERVED
    # Nobody who names no instance can mean its ranks: it publishes weights, and has never had any.
    publishes_only: bool = False

    def check_there(self) -> None:
        if self.retired:
            raise Refused(f"instance {self.name} is retired; add it again to use it", code="conflict")

    def check_writable(self, what: str) -> None:
        """Whether a worker may register here by itself: its `ranks`, or its `weights`. Raises Refused."""
        self.check_there()
        at = self.observed.url if what == "ranks" else self.observed.info_url
        if at:
            raise Refused(
                f"{self.name} is observed: its {what} are read at {at}, and do not register here as well",
                code="conflict",
            )

    @property
    def retired(self) -> bool:
        return self.intent == "retired"

    def keep_resolved(self, question: bytes, reply: Reply) -> None:
        """Until the values change; as many as there is room for, whatever askers think of."""
        size = len(question) + len(reply.body)
        if self.resolved_bytes + size <= MAX_RESOLVED_BYTES:
            self.resolved[question] = reply
            self.resolved_bytes += size

    def forget_answers(self) -> None:
        """Nothing that was prepared for the old values may be sent again."""
        self.answers.clear()
        self.resolved.clear()
        self.resolved_bytes = 0
        for forget in self.unlearn:
            forget()
        self.unlearn.clear()

    def publish(self, directory: Directory, engines: EngineTable) -> None:
        changed = _visible(directory) != _visible(self.directory) or engines is not self.engines
        self.directory, self.engines = directory, engines
        if changed:
            self.forget_answers()


def _visible(directory: Directory) -> tuple[object, ...]:
    """What answers depend on. A row that was merely seen or probed again leaves its launch's address table as it is."""
    serving = directory.serving
    if serving is None:
        return (directory.debt, directory.registered)
    return (serving.number, id(serving.at), serving.facts)


class Fleet:
    """Instances by name and id. Retired ones stay findable by name: they answer 404, they do not vanish."""

    def __init__(self, *, room_limit: int, remembered: int = 100_000, remembered_seconds: float = 120.0) -> None:
        self.by_name: dict[str, Instance] = {}
        self.by_id: dict[int, Instance] = {}
        self.by_alias: dict[str, Instance] = {}
        self.by_port: dict[int, Instance] = {}
        self.rooms = Rooms(limit=room_limit, remembered=remembered, remembered_ms=round(remembered_seconds * 1000))
        # Who registered last from an address of its own: one host's port is one rank, of one instance.
        self.holders: dict[Address, int] = {}
        self.observed: list[Instance] = []
        self.leases = Leases()
        # Who shares the listeners; and of those, by id, whose ranks may be meant.
        self._shared: list[Instance] = []
        self._with_ranks: dict[int, Instance] = {}

    def add(self, instance: Instance) -> None:
        if not instance.directory.name:
            instance.directory = Directory(instance.name)
        self.by_name[instance.name] = instance
        self.by_id[instance.id] = instance
        special = instance.retired or instance.role != "prefill" or instance.observed
        if instance.own_port or instance.host_alias or special:
            self.reindex()
            return
        # The usual newcomer shares the listener: only what its predecessor answered to the nameless changes.
        self._shared.append(instance)
        if len(self._shared) == 2:
            self._shared[0].forget_answers()
        if not instance.publishes_only:
            self._may_be_meant(instance)

    def add_all(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            self.by_name[instance.name] = instance
            self.by_id[instance.id] = instance
        self.reindex()

    def reindex(self) -> None:
        """After an instance came, went, or changed how it is found. Every prepared answer may mean another one now."""
        live = [i for i in self.by_name.values() if not i.retired]
        self.observed = [i for i in live if i.observed]
        self.by_port = {i.own_port: i for i in live if i.own_port}
        self.by_alias = {i.host_alias.lower(): i for i in live if i.host_alias}
        # Who is observed does not take the nameless from those that register here.
        self._shared = [i for i in live if self._shares(i)]
        for instance in live:
            instance.publishes_only = publishes_only(instance)
        self._with_ranks = {i.id: i for i in self._shared if not i.publishes_only}
        for instance in self.by_name.values():
            instance.forget_answers()

    @staticmethod
    def _shares(instance: Instance) -> bool:
        return not (instance.retired or instance.own_port or instance.role == "decode" or instance.observed)

    def remove(self, instance: Instance) -> None:
        """It was purged: nobody is called so any more."""
        self.by_id.pop(instance.id, None)
        if self.by_name.get(instance.name) is instance:
            del self.by_name[instance.name]
        self.rooms.forget(instance.id)
        instance.forget_answers()
        self.reindex()

    def reconsider(self, instance: Instance) -> None:
        """Its values changed: the first weights, or the first rank, say whether ranks of it may be meant."""
        only = publishes_only(instance)
        if instance.publishes_only is only:
            return
        instance.publishes_only = only
        if only:
            self._with_ranks.pop(instance.id, None)
        elif self._shares(instance):
            self._may_be_meant(instance)

    def _may_be_meant(self, instance: Instance) -> None:
        """By those who name none; what the only one so far answered to them ends."""
        if len(self._with_ranks) == 1:
            next(iter(self._with_ranks.values())).forget_answers()
        self._with_ranks[instance.id] = instance

    def index_holders(self) -> None:
        """Who is registered at which address now; forgets those that are gone."""
        self.holders = {
            address: instance.id
            for instance in self.by_id.values()
            for launch in instance.directory.launches()
            for address in launch.at
        }

    def hold(self, address: Address, instance: Instance) -> Instance | None:
        """A rank of `instance` registered from this address of its own; the other instance that thought it had it."""
        before = self.by_id.get(self.holders.get(address, 0))
        self.holders[address] = instance.id
        if len(self.holders) > MAX_HOLDERS:
            self.index_holders()
        return before if before is not instance else None

    def named(self, name: str) -> Instance | None:
        return self.by_name.get(name)

    def only_one(self, *, ranks: bool) -> Instance | None:
        """The instance that a request means when nothing names one; `ranks`: it is about ranks, which a seed of weights does
        not have. Ambiguity is refused: an answer with another instance's page size kills the decode that asked."""
        shared = self._with_ranks.values() if ranks and self._with_ranks else self._shared
        first = list(islice(shared, 3))
        if len(shared) > 1:
            names = ", ".join(i.name for i in first) + (", …" if len(shared) > 3 else "")
            raise Ambiguous(
                f"{len(shared)} instances share this listener ({names}): name one, by /i/NAME/, by"
                " X-PD-Instance, by a port of its own or as bootstrap_host NAME:x@host",
                first[0],
            )
        return first[0] if first else None


def publishes_only(instance: Instance) -> bool:
    """A seed, or who published weights before: as long as no rank of it ever registered."""
    return instance.directory.next_number == 1 and (instance.role == "seed" or bool(instance.engines.epochs))
