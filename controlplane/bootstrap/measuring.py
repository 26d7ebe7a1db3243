"""What a term has to say to a scrape, from what is in memory anyway. Called from a thread: it reads, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from controlplane.domain.contact import Contact
from controlplane.domain.health import health_status
from controlplane.metrics import of_bootstrap as names
from controlplane.metrics.meters import copied
from controlplane.metrics.metric import Sample
from controlplane.protocol.replies import STATUS_OF_CODE

from .commits import Commits
from .fleet import Instance
from .lookups import Lookups
from .tally import Tally

if TYPE_CHECKING:
    from .leader import Leader

AT_A_TIME = 50
"""Instances between two moments in which the loop that serves may have the interpreter."""

MISSES = (
    ("topology", "incomplete"),
    ("topology", "malformed"),
    ("rank", "incomplete"),
    ("rank", "unknown"),
    ("rank", "malformed"),
    ("engine_info", "unknown"),
)


def measure(leader: Leader) -> Iterator[Sample]:
    yield Sample(names.TERM, leader.token)
    yield from _wires(leader.kv_door.tally)
    listeners = leader.listeners
    yield Sample(names.CONNECTIONS, len(listeners.connections))
    yield Sample(names.CONNECTION_LIMIT, listeners.limit)
    yield Sample(names.CONNECTIONS_CLOSED, listeners.closed_for_room)
    yield from _rooms(leader)
    yield from _waits(leader.kv_door.tally, leader.lookups)
    yield from _commits("facts", leader.recorder.commits)
    yield from _commits("rooms", leader.rooms.commits)
    yield from _probes(leader)
    yield from _instances(leader)


def _wires(tally: Tally) -> Iterator[Sample]:
    yield Sample(names.REGISTRATIONS, tally.registrations)
    yield Sample(names.PUBLICATIONS, tally.publications)
    yield Sample(names.HEARTBEATS, tally.beats)
    yield Sample(names.LOOKUPS, tally.lookups)
    for key, count in {**dict.fromkeys(MISSES, 0), **tally.misses}.items():
        yield Sample(names.LOOKUP_MISSES, count, key)
    for code, count in {**dict.fromkeys(("malformed", *STATUS_OF_CODE), 0), **tally.refused}.items():
        yield Sample(names.REFUSALS, count, (code,))
    for status, count in {200: 0, 404: 0, 503: 0, **tally.polls}.items():
        yield Sample(names.POLLS, count, (str(status),))


def _rooms(leader: Leader) -> Iterator[Sample]:
    rooms, recorder, tally = leader.fleet.rooms, leader.rooms, leader.kv_door.tally
    yield Sample(names.ROOMS, rooms.count)
    yield Sample(names.ROOM_LIMIT, rooms.limit)
    yield Sample(names.ROOMS_BOUND, recorder.bound)
    yield Sample(names.ROOMS_EXPIRED, recorder.expired)
    yield Sample(names.ROOMS_EVICTED, rooms.evicted)
    yield Sample(names.ROOMS_REJECTED, recorder.commits.not_stored)
    yield Sample(names.COLLISIONS, recorder.collisions)
    yield Sample(names.REUSED, recorder.reused)
    yield Sample(names.ROOMS_ASKED, tally.rooms_asked)
    yield Sample(names.ROOMS_ANSWERED, tally.rooms_answered)


def _waits(tally: Tally, lookups: Lookups) -> Iterator[Sample]:
    for phase, waiting, given_up in (
        ("topology", tally.hosts.count, tally.hosts.given_up),
        ("room", lookups.waiting, lookups.given_up),
    ):
        yield Sample(names.WAIT_SECONDS, copied(tally.took[phase]), (phase,))
        yield Sample(names.WAITING, waiting, (phase,))
        yield Sample(names.WAITS_ENDED, given_up, (phase,))


def _commits(recorder: str, commits: Commits) -> Iterator[Sample]:
    yield Sample(names.COMMIT_SECONDS, copied(commits.took), (recorder,))
    yield Sample(names.COMMIT_OPERATIONS, copied(commits.sizes), (recorder,))
    for why, count in list(commits.failures.items()):
        yield Sample(names.COMMIT_FAILURES, count, (recorder, why))
    if recorder == "facts":
        yield Sample(names.NOT_STORED, commits.not_stored)


def _probes(leader: Leader) -> Iterator[Sample]:
    timing = leader.watch.timing
    for contact in Contact:
        yield Sample(names.PROBES, timing.heard_as[contact], (str(contact),))
    yield Sample(names.PROBE_SECONDS, copied(timing.answers))
    yield Sample(names.SWEEPS, leader.watch.sweeps)
    yield Sample(names.SWEEP_SECONDS, leader.watch.sweep_seconds)
    yield Sample(names.TARGETS, leader.watch.swept)
    yield Sample(names.PAUSED, int(leader.watch.paused))


def _instances(leader: Leader) -> Iterator[Sample]:
    """Who was retired has no series any more, whatever still speaks of it."""
    for number, instance in enumerate(list(leader.fleet.by_id.values())):
        if number % AT_A_TIME == AT_A_TIME - 1:
            time.sleep(0)
        if not instance.retired:
            yield from _instance(instance)


def _instance(instance: Instance) -> Iterator[Sample]:
    directory, labels = instance.directory, (instance.name, instance.role)
    current, candidate = directory.current, directory.candidate
    if current is None and candidate is None and instance.role != "prefill":
        # Ranks of a decode or a seed register here when they have a reason to.
        return
    rows = list(current.rows.values()) if current is not None else []
    yield Sample(names.EXPECTED, current.topology.size if current is not None else 0, labels)
    yield Sample(names.REGISTERED, len(rows), labels)
    yield Sample(names.ANSWERING, sum(row.contact is Contact.UP for row in rows), labels)
    yield Sample(names.CANDIDATES, len(candidate.rows) if candidate is not None else 0, labels)
    yield Sample(names.LAUNCH, current.number if current is not None else 0, labels)
    yield Sample(names.HEALTHY, int(health_status(directory, retired=False) == 200), labels)
