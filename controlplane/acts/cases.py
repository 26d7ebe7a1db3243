"""One action on what was selected: what it is about, whether that is still as it was shown, and doing it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import DatabaseError

from controlplane.domain.errors import Refused
from controlplane.queries.wording import counted

from .table import ACTS, Act, Asked, Did
from .targets import Standing, Target, grouped, read_all

STATUS = {"malformed": 400, "not_found": 404, "conflict": 409, "stale": 412}
"""Of HTTP, by the code of a refusal; every other one is 409."""

MOST_PLANNED = 20

NO_ANSWER = "the database did not answer, so nobody knows whether this was done: look before you try again"

Seen = dict[str, dict[str, str]]
"""What was shown of each target before: what it said, and its pin."""


@dataclass(frozen=True, slots=True)
class Case:
    """What it is about now, and what was said of the selection."""

    name: str
    act: Act
    targets: Sequence[Target]
    notes: Sequence[str] = ()

    @property
    def what(self) -> str:
        return self.targets[0].title if len(self.targets) == 1 else counted(len(self.targets), "target")

    @property
    def short(self) -> str:
        """The same in as few words as fit on a button."""
        return self.targets[0].words if len(self.targets) == 1 else self.what

    @property
    def phrase(self) -> str:
        """What is to be typed before something that cannot be taken back."""
        if not self.act.typed:
            return ""
        return self.targets[0].name if len(self.targets) == 1 else f"{self.name} {len(self.targets)}"

    @property
    def action(self) -> str:
        """As the audit names it."""
        return f"instance.{self.name}"

    def untrue(self, count: str, typed: str) -> list[str]:
        """What a confirmation says that is not so, as sentences."""
        said = []
        if count != str(len(self.targets)):
            said.append(f"{counted(len(self.targets), 'target')} would be concerned, and not as many as were shown.")
        if self.phrase and typed.strip() != self.phrase:
            said.append(f"Type {self.phrase} to confirm.")
        return said


def case_of(name: str, texts: Sequence[str]) -> Case:
    """The action of that name on what these texts name, ranks as their DP groups where it concerns those. Raises Refused."""
    act = ACTS.get(name)
    if act is None:
        raise Refused(f"there is no action {name[:60]}", code="not_found")
    selected = read_all(texts)
    targets, notes = grouped(selected) if act.groups else (selected, [])
    return Case(name, act, targets, notes)


def one_by_one(targets: Sequence[Target]) -> None:
    """Refuse too many of what looks at the whole fleet for each."""
    if len(targets) > MOST_PLANNED:
        raise Refused(f"{len(targets)} are selected; at most {MOST_PLANNED} can be planned at once", code="malformed")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one target: `did`, or else the refusal, which for a stale one says what is different and by whom."""

    target: Target
    status: int
    sentence: str
    did: Did | None = None


def do(case: Case, standings: Sequence[Standing], asked: Asked) -> Iterator[Result]:
    """One after the other, each as it was shown: a refusal of one keeps nothing from the next."""
    versions = {standing.target.name: standing.version for standing in standings}
    for standing in standings:
        target = standing.target
        try:
            did = case.act.run(target, asked, versions[target.name])
        except Refused as refused:
            yield Result(target, STATUS.get(refused.code, 409), refused.sentence)
        except DatabaseError:
            # Those before it are done, and stay to be told and audited.
            yield Result(target, 503, NO_ANSWER)
        else:
            # Our own change of one DP group must not make the next one of the same instance look stale.
            versions[target.name] = did.version if did.version is not None else versions[target.name]
            yield Result(target, 200, did.sentence, did)


def seen_of(standings: Sequence[Standing]) -> str:
    """What is shown of them, for the form that comes back."""
    seen = {str(standing.target): {**standing.says, "pin": standing.pin} for standing in standings}
    return json.dumps(seen, ensure_ascii=False)


def read_seen(text: str) -> Seen:
    """The way back. Whoever sends something else fools nobody but themselves: versions are compared."""
    try:
        seen: Mapping[str, Mapping[str, object]] = json.loads(text)
        return {str(key): {str(name): str(value) for name, value in said.items()} for key, said in seen.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}
