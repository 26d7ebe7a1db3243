"""Answers about pairs: what a decode needs of a prefill, and whether they fit."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.domain.disagreement import Effect
from controlplane.domain.resolving import MappedRank
from controlplane.protocol.resolving import finding_document
from controlplane.queries.compatibility import PairRow
from controlplane.queries.resolve import Resolved
from controlplane.queries.wording import slot_key

from ..fields import SlotKey
from .base import Answer
from .instances import TopologyAnswer

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class FindingAnswer(Answer):
    """One field on which a pair disagrees, or that nobody compares, or nobody knows."""

    field = Chars()
    effect = serializers.ChoiceField([effect.value for effect in Effect])
    fatal = Bool()
    prefill = serializers.JSONField(allow_null=True)
    decode = serializers.JSONField(allow_null=True, help_text="Null too when nobody said: then `known` is false.")
    known = Bool()
    sentence = Chars()
    what_happens = Chars(help_text="What SGLang does about it.")


class PairAnswer(Answer):
    """One prefill with one decode."""

    prefill = Chars()
    launch = Int(allow_null=True)
    decode = Chars(allow_blank=True, help_text="Empty: the decode that described itself in the question.")
    known_from = serializers.ChoiceField(["posted", "observed", "stored", "nobody"])
    verdict = serializers.ChoiceField(["compatible", "incompatible", "unknown"])
    usable = Bool(help_text="Both can be sent work, and nothing known speaks against the pair.")
    because = Chars(allow_blank=True)
    findings = FindingAnswer(many=True, help_text="In the order in which SGLang would meet them.")


class PairsAnswer(Answer):
    """A page of pairs."""

    total = Int()
    items = PairAnswer(many=True)
    next = Chars(allow_null=True)


class TargetAnswer(Answer):
    """One rank to connect to."""

    slot = SlotKey()
    address = Chars()
    dummy = Bool(help_text="It is told of the request, and sends nothing (MLA).")


class TargetsOfGroupAnswer(Answer):
    dp = Int()
    targets = TargetAnswer(many=True)


class MappedRankAnswer(Answer):
    """Where one rank of the decode connects, and how many answers make its request whole."""

    engine_rank = Int()
    pp_rank = Int()
    target_tp_rank = Int(allow_null=True)
    target_tp_ranks = serializers.ListField(child=Int())
    target_cp_ranks = serializers.ListField(child=Int())
    target_pp_ranks = serializers.ListField(child=Int())
    required_dst_info_num = Int()
    required_prefill_response_num = Int()
    groups = TargetsOfGroupAnswer(many=True)


class ResolvedAnswer(Answer):
    """One launch of a prefill, as a decode has to use it: the mapping and all addresses. Its ETag changes with either."""

    instance = Chars()
    launch = Int()
    token = Chars(allow_null=True)
    topology = TopologyAnswer()
    follow_bootstrap_room = Bool(help_text="room % dp is the DP group; else ask /query_dp_ranks.")
    intent = Chars()
    cursor = Chars()
    old = Bool(help_text="No bootstrap process leads: this is what it last held.")
    ranks = MappedRankAnswer(many=True)
    open = FindingAnswer(many=True)


def pair_document(row: PairRow) -> dict[str, Any]:
    return {
        "prefill": row.prefill,
        "launch": row.launch,
        "decode": row.decode,
        "known_from": row.known_from,
        "verdict": row.verdict,
        "usable": row.usable,
        "because": row.because,
        "findings": [finding_document(found) for found in row.compatibility.findings],
    }


def resolved_document(found: Resolved) -> dict[str, Any]:
    dp, cp, tp, pp = found.topology.axes()
    return {
        "instance": found.instance,
        "launch": found.launch,
        "token": found.token,
        "topology": {"dp": dp, "cp": cp, "tp": tp, "pp": pp},
        "follow_bootstrap_room": found.follow_bootstrap_room,
        "intent": found.intent,
        "cursor": f"{found.cursor.ledger_id}:{found.cursor.revision}",
        "old": found.old,
        "ranks": [_rank(rank, found) for rank in found.ranks],
        "open": [finding_document(finding) for finding in found.open],
    }


def _rank(rank: MappedRank, found: Resolved) -> dict[str, Any]:
    mapping = rank.mapping
    return {
        "engine_rank": rank.engine_rank,
        "pp_rank": rank.pp_rank,
        "target_tp_rank": mapping.target_tp_rank,
        "target_tp_ranks": list(mapping.target_tp_ranks),
        "target_cp_ranks": list(mapping.target_cp_ranks),
        "target_pp_ranks": list(mapping.target_pp_ranks),
        "required_dst_info_num": mapping.required_dst_info_num,
        "required_prefill_response_num": mapping.required_prefill_response_num,
        "groups": [
            {
                "dp": group,
                "targets": [
                    {
                        "slot": slot_key(slot),
                        "address": found.addresses[slot],
                        "dummy": rank.is_dummy(slot, mla=found.is_mla),
                    }
                    for slot in rank.slots(group)
                ],
            }
            for group in found.groups
        ],
    }
