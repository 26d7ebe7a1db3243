"""Rows as JSON for commands: RFC 3339 times, rooms as strings, slots in the form that `--slot` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from controlplane.domain.questions import Answer, Inquiry
from controlplane.domain.routable import Verdict
from controlplane.queries.engine_health import EngineRow
from controlplane.queries.events import EventRow, sentence
from controlplane.queries.evidence import RoomEvidence
from controlplane.queries.rooms import RoomRow
from controlplane.queries.rows import FleetRow, InstanceRow, LaunchRow, ObservationRow, RankRow
from controlplane.queries.standing import BreakerRow, GroupRow, OpenDrainRow
from controlplane.queries.wording import slot_key

from .operating import moment


def fleet_document(fleet: FleetRow, *, now: float) -> dict[str, Any]:
    """What stands around the instances: as of which revision, and who leads."""
    leader = fleet.leader
    return {
        "ledger": fleet.ledger_id,
        "revision": fleet.revision,
        "bootstrap": {
            "leads": leader.leads(now),
            "holder": leader.holder,
            "term": leader.token,
            "renewed_at": moment(leader.stamp) if leader.stamp else None,
        },
    }


def instance_document(instance: InstanceRow) -> dict[str, Any]:
    return {
        "name": instance.name,
        "role": instance.role,
        "intent": instance.intent,
        "intent_by": {
            "actor": instance.intent_actor,
            "reason": instance.intent_reason,
            "at": moment(instance.intent_at),
        },
        "version": instance.version,
        "state": instance.state,
        "serving": instance.serving,
        "complete": instance.complete,
        "registered": instance.registered,
        "expected": instance.expected,
        "missing": [slot_key(slot) for slot in instance.current.missing] if instance.current else [],
        "health": {
            "status": instance.health,
            "since": moment(instance.debt_since),
            "reason": instance.health_reason,
        },
        "own_port": instance.own_port,
        "host_alias": instance.host_alias,
        "engine_url": instance.engine_url,
        "knowledge": instance.knowledge,
        "observed_url": instance.observed_url,
        "observed_engine_info_url": instance.observed_engine_info_url,
        "observation": observation_document(instance.observation) if instance.observation else None,
        "engine": engine_document(instance.engine),
        "probe_seconds": instance.probe_seconds,
        "fail_after": instance.fail_after,
        "pass_after": instance.pass_after,
        "created_at": moment(instance.created_at),
        "retired_at": moment(instance.retired_at),
        "launch": launch_document(instance.current) if instance.current else None,
        "candidate": launch_document(instance.candidate) if instance.candidate else None,
        "flagged": [rank_document(rank) for rank in instance.flagged],
        "flagged_count": instance.flagged_count,
        "left_lately": [rank_document(rank) for rank in instance.left],
        "engine_info": {"sessions": instance.sessions, "conflicts": instance.conflicts},
        "groups": [group_document(group) for group in instance.groups],
        "drains": [drain_document(drain) for drain in instance.drains],
        "breakers": [breaker_document(breaker) for breaker in instance.breakers],
    }


def observation_document(observation: ObservationRow) -> dict[str, Any]:
    return {
        "state": observation.state,
        "sentence": observation.sentence,
        "since": moment(observation.since),
        "answered_at": moment(observation.answered_at),
        "registered": observation.registered,
        "said": dict(observation.said),
    }


def engine_document(engine: EngineRow) -> dict[str, Any]:
    return {
        "state": engine.state,
        "why": engine.why,
        "sentence": engine.sentence,
        "at": engine.at,
        "since": moment(engine.since),
        "asked_at": moment(engine.asked_at),
        "answered_at": moment(engine.answered_at),
        "proof_at": moment(engine.proof_at),
        "status": engine.status,
        "error": engine.error,
        "error_at": moment(engine.error_at),
        "fails": engine.fails,
        "signals": engine.signals(),
        "said": dict(engine.told),
        "identified_at": moment(engine.identified_at),
        "load": dict(engine.load),
        "load_at": moment(engine.load_at),
        "withheld_since": moment(engine.withheld_since),
    }


def group_document(group: GroupRow) -> dict[str, Any]:
    return {
        "dp": group.group,
        "intent": group.intent,
        "actor": group.actor,
        "reason": group.reason,
        "at": moment(group.at),
    }


def drain_document(drain: OpenDrainRow) -> dict[str, Any]:
    return {
        "drain": drain.id,
        "dp": drain.group,
        "launch": drain.launch,
        "progress": drain.progress,
        "blockers": list(drain.blockers),
        "actor": drain.actor,
        "reason": drain.reason,
        "started_at": moment(drain.started_at),
        "deadline_at": moment(drain.deadline_at),
        "min_ready": drain.min_ready,
        "checked_at": moment(drain.checked_at),
        "empty_at": moment(drain.empty_at),
    }


def breaker_document(breaker: BreakerRow) -> dict[str, Any]:
    return {
        "gateway": breaker.gateway,
        "dp": breaker.group,
        "state": breaker.state,
        "since": moment(breaker.since),
        "reported_at": moment(breaker.reported_at),
        "reason": breaker.reason,
    }


def inquiry_document(found: Inquiry) -> dict[str, Any]:
    """The questions in order, and what their answers come to."""
    return {"conclusion": asdict(found.outcome), "answers": _answers(found.answers)}


def room_way_document(found: RoomEvidence) -> dict[str, Any]:
    """How far the way of a room is proven, and where it stopped."""
    return {
        "room": str(found.room),
        "live": found.live,
        "proven": found.ladder.proven,
        "conclusion": asdict(found.ladder.conclusion),
        "answers": _answers(found.answers),
    }


def _answers(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    return [{**asdict(answer), "verdict": answer.verdict.value, "at": moment(answer.at)} for answer in answers]


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    return {
        "routable": verdict.routable,
        "because": verdict.because,
        "reasons": [
            {
                "fact": str(reason.fact),
                "code": reason.code,
                "sentence": reason.sentence,
                "blocks": reason.blocks,
                "since": moment(reason.since),
                "seen_at": moment(reason.seen_at),
                "old": reason.old,
            }
            for reason in verdict.reasons
        ],
    }


def launch_document(launch: LaunchRow) -> dict[str, Any]:
    dp, cp, tp, pp = launch.topology.axes()
    return {
        "number": launch.number,
        "state": launch.state,
        "topology": {"dp": dp, "cp": cp, "tp": tp, "pp": pp},
        "facts": launch.facts,
        "token": launch.token,
        "registered": launch.registered,
        "expected": launch.expected,
        "missing": [slot_key(slot) for slot in launch.missing],
        "opened_at": moment(launch.opened_at),
        "completed_at": moment(launch.completed_at),
        "unchecked": launch.unchecked,
        "claims": [{"slot": slot_key(c.slot), "ip": c.ip, "port": c.port} for c in launch.claims],
        "ended_at": moment(launch.ended_at),
        "ended_reason": launch.ended_reason,
    }


def rank_document(rank: RankRow) -> dict[str, Any]:
    return {
        "launch": rank.launch,
        "slot": slot_key(rank.slot),
        "ip": rank.ip,
        "port": rank.port,
        "http_port": rank.http_port,
        "contact": rank.contact,
        "greeted": rank.greeted,
        "verified": rank.verified,
        "flags": list(rank.flags),
        "first_at": moment(rank.first_at),
        "seen_at": moment(rank.seen_at),
        "left_at": moment(rank.left_at),
        "left_reason": rank.left_reason,
    }


def room_document(row: RoomRow) -> dict[str, Any]:
    return {
        "instance": row.instance,
        "room": str(row.room),
        "dp_rank": row.dp,
        "live": row.live,
        "expires_at": moment(row.expires_at),
        "collisions": [{"before": c.before, "after": c.after, "at": moment(c.at)} for c in row.collisions],
        "reuses": [
            {"before": r.before, "after": r.after, "late": r.late, "over": r.over, "at": moment(r.at)}
            for r in row.reuses
        ],
    }


def event_document(event: EventRow) -> dict[str, Any]:
    return {
        "revision": event.revision,
        "at": moment(event.at),
        "kind": event.kind,
        "instance": event.instance,
        "actor": event.actor,
        "reason": event.reason,
        "sentence": sentence(event),
        "data": event.data,
    }
