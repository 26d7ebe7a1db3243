"""`POST /pd/v1/resolve` of our own door: the API's question and answer, without a database between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.domain import decodes
from controlplane.domain.addresses import bracketed
from controlplane.domain.decodes import UNKNOWN, Decode
from controlplane.domain.directory import Directory
from controlplane.domain.disagreement import Finding, Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Launch
from controlplane.domain.resolving import MappedRank, Plan, plan, tag
from controlplane.domain.topology import Slot

from .reading import decoded
from .replies import PLAIN_JSON, Reply


class Body(msgspec.Struct):
    decode: dict[str, Any]
    instance: str | None = None
    engine_rank: int | None = None
    pp_rank: int = 0
    dp: int | None = None


BODY = msgspec.json.Decoder(Body)


@dataclass(frozen=True, slots=True)
class Question:
    """Who asks (names as on SGLang's wire), for which of its ranks, about which DP group. None: all of them."""

    instance: str | None
    decode: Decode
    engine_rank: int | None
    pp_rank: int
    dp: int | None


def read(body: bytes) -> Question:
    """Raises Refused (malformed) that names the field."""
    b: Body = decoded(BODY, body, "POST /pd/v1/resolve")
    return Question(b.instance, decodes.read(b.decode), b.engine_rank, b.pp_rank, b.dp)


def answer(
    name: str,
    launch: Launch,
    intent: str,
    asked: Question,
    *,
    old: bool = False,
    heard_seconds_ago: float | None = None,
) -> Reply:
    """The answer and its ETag, from a launch that is served. `old`: by somebody whose control plane is away, and who heard
    the intent (blank: never) so long ago. Raises Refused (conflict, malformed)."""
    prefill = Prefill(launch.topology, launch.facts)
    found = plan(
        asked.decode, prefill, launch.number, engine_rank=asked.engine_rank, pp_rank=asked.pp_rank, dp=asked.dp
    )
    rows = launch.rows
    addresses = {slot: f"{bracketed(rows[slot].ip)}:{rows[slot].port}" for slot in found.slots()}
    mla = asked.decode.is_mla is True
    dp, cp, tp, pp = launch.topology.axes()
    said = {
        "instance": name,
        "launch": launch.number,
        "token": launch.token,
        "topology": {"dp": dp, "cp": cp, "tp": tp, "pp": pp},
        "follow_bootstrap_room": launch.facts.follow_bootstrap_room,
        "intent": intent,
        "cursor": "",
        "old": old,
        "ranks": [_rank(rank, found, addresses, mla) for rank in found.ranks],
        "open": [finding_document(one) for one in found.open],
    }
    if old:
        said["heard_seconds_ago"] = heard_seconds_ago
    etag = tag(name, launch.number, launch.token, found.ranks, addresses)
    return Reply(200, msgspec.json.encode(said), PLAIN_JSON, headers=f'etag: "{etag}"\r\n'.encode())


def not_ready(directory: Directory) -> Refused:
    """As SGLang's wire says it, and which ranks are missing."""
    said = f"Prefill server not fully registered yet ({directory.registered} workers registered)"
    launch = directory.candidate or directory.current
    missing = launch.topology.missing(launch.rows, 8) if launch is not None else []
    more = f"; missing: {', '.join(map(str, missing))}" if missing else ""
    return Refused(said + more, code="unavailable")


def unchanged(reply: Reply, if_none_match: bytes | None) -> Reply:
    """304 when the client has this answer already."""
    etag = reply.headers.removeprefix(b"etag: ").rstrip()
    if if_none_match is not None and etag in (part.strip().removeprefix(b"W/") for part in if_none_match.split(b",")):
        return Reply(304, b"", PLAIN_JSON, headers=reply.headers)
    return reply


def _rank(rank: MappedRank, found: Plan, addresses: Mapping[Slot, str], mla: bool) -> dict[str, Any]:
    mapping = rank.mapping
    return {
        "engine_rank": rank.engine_rank,
        "pp_rank": rank.pp_rank,
        "target_tp_rank": mapping.target_tp_rank,
        "target_tp_ranks": mapping.target_tp_ranks,
        "target_cp_ranks": mapping.target_cp_ranks,
        "target_pp_ranks": mapping.target_pp_ranks,
        "required_dst_info_num": mapping.required_dst_info_num,
        "required_prefill_response_num": mapping.required_prefill_response_num,
        "groups": [
            {
                "dp": group,
                "targets": [
                    {"slot": _key(slot), "address": addresses[slot], "dummy": rank.is_dummy(slot, mla=mla)}
                    for slot in rank.slots(group)
                ],
            }
            for group in found.groups
        ],
    }


def finding_document(found: Finding) -> dict[str, Any]:
    """One field that a prefill and a decode disagree about, as both wires and the API say it."""
    return {
        "field": found.field,
        "effect": found.effect.value,
        "fatal": found.fatal,
        "prefill": _plain(found.prefill),
        "decode": _plain(found.decode),
        "known": found.decode is not UNKNOWN,
        "sentence": found.sentence,
        "what_happens": found.what_happens,
    }


def _plain(value: Any) -> Any:
    if value is UNKNOWN:
        return None
    if isinstance(value, frozenset | set | tuple):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else value


def _key(slot: Slot) -> str:
    return f"dp{slot.dp}.cp{slot.cp}.tp{slot.tp}.pp{slot.pp}"
