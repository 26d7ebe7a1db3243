"""The watched file of observed instances: a list that somebody else keeps, brought into the fleet when it changes.

It adds and changes; it never takes away. A file that is cut short, or for a moment empty, must not take a fleet out of use:
who is no longer in it stays observed until an operator retires it, and who was retired stays so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.models import Instance
from controlplane.probes.urls import parse as parse_url

from . import instances

ACTOR = "PDCP_OBSERVE_FILE"
REASON = "stands in the watched file"
MAX_BYTES = 4 * 2**20
URLS = ("observed_url", "observed_engine_info_url", "engine_url")
FIELDS = ("name", "role", *URLS)


@dataclass(frozen=True, slots=True)
class Entry:
    """One instance that the file names. `urls`: what it says of them; what it leaves away stays as it is."""

    name: str
    role: str
    urls: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Applied:
    """`changed`: sentences of what was done; `refused`: of what could not be."""

    changed: tuple[str, ...]
    refused: tuple[str, ...]


def read(text: str) -> list[Entry]:
    """A JSON list of objects, or a line for each instance: `URL`, `NAME URL` or `NAME URL ROLE`; # begins a comment.

    >>> read("prefill-a http://10.0.0.1:8998")[0].urls
    {'observed_url': 'http://10.0.0.1:8998'}

    Raises Refused: a file that cannot be read as a whole changes nothing.
    """
    if len(text) > MAX_BYTES:
        raise Refused(f"the watched file is larger than {MAX_BYTES // 2**20} MiB", code="too_large")
    found = _lines(text) if is_lines(text) else _json(text)
    names = [entry.name for entry in found]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise Refused(f"the watched file names {twice} twice", code="malformed")
    return found


def is_lines(text: str) -> bool:
    """Else it is JSON, which cannot be read when its end is missing."""
    return not text.lstrip().startswith(("[", "{"))


def apply(entries: list[Entry]) -> Applied:
    """Add who is new, change who is different. What is refused of one entry concerns that one alone."""
    known = {row.name: row for row in Instance.objects.using(FACTS).filter(name__in=[e.name for e in entries])}
    changed, refused = [], []
    for entry in entries:
        try:
            done = _apply(entry, known.get(entry.name))
        except Refused as problem:
            refused.append(f"{entry.name}: {problem.sentence}")
            continue
        if done is not None and done.changed:
            changed.append(done.sentence)
    return Applied(tuple(changed), tuple(refused))


def _apply(entry: Entry, row: Instance | None) -> instances.Done | None:
    who: dict[str, Any] = {"actor": ACTOR, "reason": REASON}
    if row is None:
        return instances.add(entry.name, role=entry.role, **entry.urls, **who)
    if row.intent == Instance.Intent.RETIRED:
        # An operator did that, and a list does not undo it.
        return None
    if row.role != entry.role:
        raise Refused(f"it is a {row.role} here, and a {entry.role} in the watched file", code="conflict")
    return instances.edit(entry.name, **entry.urls, **who)


def _json(text: str) -> list[Entry]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Refused(f"the watched file is not JSON: {str(problem)[:200]}", code="malformed") from None
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Refused("the watched file must hold a list of objects", code="malformed")
    return [_entry(one, f"entry {number}") for number, one in enumerate(given, 1)]


def _lines(text: str) -> list[Entry]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) == 1:
            words = [_name_of(words[0], number), *words]
        if len(words) > 3:
            raise Refused(f"line {number} of the watched file has more than NAME URL ROLE", code="malformed")
        found.append(_entry(dict(zip(("name", "observed_url", "role"), words, strict=False)), f"line {number}"))
    return found


def _entry(given: Mapping[str, Any], where: str) -> Entry:
    for key, value in given.items():
        if key not in FIELDS or not isinstance(value, str):
            known = ", ".join(FIELDS)
            raise Refused(
                f"{where} of the watched file: {str(key)[:50]!r} is not text, or none of {known}", code="malformed"
            )
    urls = {key: given[key] for key in URLS if key in given}
    if not given.get("name") or not (urls.get("observed_url") or urls.get("observed_engine_info_url")):
        raise Refused(f"{where} of the watched file lacks a name, or where it is observed", code="malformed")
    # Seeds have nothing but their weights.
    return Entry(given["name"], given.get("role") or ("prefill" if urls.get("observed_url") else "seed"), urls)


def _name_of(url: str, number: int) -> str:
    """A name for who has none: its host and port."""
    try:
        target = parse_url(url)
    except Refused as problem:
        raise Refused(f"line {number} of the watched file: {problem.sentence}", code="malformed") from None
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", target.host).strip("-.")
    return f"{host}-{target.port}"[:100]
