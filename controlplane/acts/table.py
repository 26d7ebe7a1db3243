"""What can be done to instances, DP groups and ranks: one table, each line a command that API and CLI call as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.access.roles import OPERATE
from controlplane.commands import drains, instances, intent, purging, requests, suspecting

from .targets import Target

INSTANCE, RANK, DRAIN = "instance", "rank", "drain"
"""The lists that offer actions."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of whoever acts. `deadline_at` is in epoch seconds."""

    actor: str
    reason: str
    deadline_at: float | None = None
    min_ready: int = 0
    to: str = "enabled"


@dataclass(frozen=True, slots=True)
class Did:
    """What came of it. `version` is the instance's now, where the command says it; `request` waits for its answer."""

    sentence: str
    changed: bool = True
    version: int | None = None
    request: int | None = None


Run = Callable[[Target, Asked, int], Did]


@dataclass(frozen=True, slots=True)
class Act:
    """`means` says what it does, `{what}` being whatever it is done to. `asks`: fields of the form beside the reason."""

    label: str
    means: str
    run: Run
    on: frozenset[str]
    groups: bool = False
    """Ranks stand for their DP groups."""
    asks: tuple[str, ...] = ()
    plan: bool = False
    """Takes capacity away: what remains is shown."""
    drains: bool = False
    """Begins a drain: who must stop, who can tell that nothing is left, and what would refuse it is shown as well."""
    gone: bool = False
    """Also for ranks that have left."""
    typed: bool = False
    """To be confirmed by typing the name."""
    danger: bool = False
    """What is in flight, or who is registered, may be lost."""
    of_launch: bool = False
    """About the launches that are there now: one that began since it was shown is not meant."""
    verb: str = OPERATE


def _changed(changed: Any) -> Did:
    return Did(changed.sentence, changed.changed, changed.version)


def _cordon(on: Target, asked: Asked, version: int) -> Did:
    return _changed(intent.cordon(on.name, group=on.group, actor=asked.actor, reason=asked.reason, expected=version))


def _uncordon(on: Target, asked: Asked, version: int) -> Did:
    return _changed(intent.uncordon(on.name, group=on.group, actor=asked.actor, reason=asked.reason, expected=version))


def _drain(on: Target, asked: Asked, version: int) -> Did:
    return _changed(
        drains.drain(
            on.name,
            group=on.group,
            actor=asked.actor,
            reason=asked.reason,
            deadline_at=asked.deadline_at,
            min_ready=asked.min_ready,
            expected=version,
        )
    )


def _cancel(on: Target, asked: Asked, version: int) -> Did:
    return _changed(
        drains.cancel(on.name, group=on.group, to=asked.to, actor=asked.actor, reason=asked.reason, expected=version)
    )


def _force(on: Target, asked: Asked, version: int) -> Did:
    return _changed(drains.force(on.name, group=on.group, actor=asked.actor, reason=asked.reason, expected=version))


def _retire(on: Target, asked: Asked, version: int) -> Did:
    done = instances.retire(on.name, actor=asked.actor, reason=asked.reason, expected=version)
    return Did(" ".join([done.sentence, *done.advice]), done.changed)


def _purge(on: Target, asked: Asked, version: int) -> Did:
    number = purging.purge(on.name, actor=asked.actor, reason=asked.reason, expected=version)
    return Did(f"purge {on.title}: request {number} is in the inbox of the bootstrap process", request=number)


def _request(kind: str) -> Run:
    def run(on: Target, asked: Asked, version: int) -> Did:
        launch = on.launch if kind == "evict" else None
        number = requests.make(kind, on.name, on.slot, launch=launch, actor=asked.actor, reason=asked.reason)
        return Did(f"{kind} {on.title}: request {number} is in the inbox of the bootstrap process", request=number)

    return run


def _suspect(on: Target, asked: Asked, version: int) -> Did:
    found = suspecting.suspect(on.name, actor=asked.actor, reason=asked.reason)
    return Did(found.sentence, found.changed)


ACTS: Mapping[str, Act] = {
    "drain": Act(
        "Drain",
        "Nothing new is sent to {what}; what is under way ends there. It is drained when witnesses have seen that.",
        _drain,
        frozenset({INSTANCE, RANK}),
        groups=True,
        asks=("deadline_minutes", "min_ready"),
        plan=True,
        drains=True,
    ),
    "cancel-drain": Act(
        "Cancel drain",
        "The drain of {what} ends where it is.",
        _cancel,
        frozenset({INSTANCE, RANK, DRAIN}),
        groups=True,
        asks=("to",),
    ),
    "force-drain": Act(
        "Force the end of a drain",
        "The drain of {what} ends as forced, whatever is still open there. It never counts as drained.",
        _force,
        frozenset({DRAIN}),
        groups=True,
        danger=True,
    ),
    "cordon": Act(
        "Cordon",
        "Nothing new is sent to {what} until it is uncordoned. What is under way goes on.",
        _cordon,
        frozenset({INSTANCE, RANK}),
        groups=True,
        plan=True,
    ),
    "uncordon": Act(
        "Uncordon",
        "{what} may be chosen again. A drain of it is cancelled.",
        _uncordon,
        frozenset({INSTANCE, RANK}),
        groups=True,
    ),
    "evict": Act(
        "Evict",
        "The bootstrap process takes {what} out of its launch. Look-ups are not answered with it from then on, until it"
        " registers again.",
        _request("evict"),
        frozenset({INSTANCE, RANK}),
        danger=True,
        of_launch=True,
    ),
    "reregister": Act(
        "Re-register",
        "Whoever runs {what} is told to register again, as far as it can be told: the answer to the request says how.",
        _request("reregister"),
        frozenset({INSTANCE, RANK}),
        gone=True,
    ),
    "readmit": Act(
        "Re-admit",
        "The last known rows of {what} are probed, and count again if they answer.",
        _request("readmit"),
        frozenset({INSTANCE, RANK}),
        gone=True,
    ),
    "suspect": Act(
        "Probe now",
        "The ranks of {what} and its engine are asked at once how they are, whosever turn it is. Nothing else changes.",
        _suspect,
        frozenset({INSTANCE}),
    ),
    "supersede": Act(
        "Supersede",
        "The candidate launch of {what} takes over at once, whoever of the current one still answers.",
        _request("supersede"),
        frozenset({INSTANCE}),
        of_launch=True,
    ),
    "retire": Act(
        "Retire",
        "{what} ends: whoever asks for it is told 404, and its port and alias are free for others.",
        _retire,
        frozenset({INSTANCE}),
        plan=True,
        typed=True,
        danger=True,
    ),
    "purge": Act(
        "Purge",
        "{what}, which is retired, goes for good: nothing is called so any more, and whoever registers under that name is"
        " new. Its launches stay in the archive. It is refused while ranks answer.",
        _purge,
        frozenset({INSTANCE}),
        typed=True,
        danger=True,
    ),
}
