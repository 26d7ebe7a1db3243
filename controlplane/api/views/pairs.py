"""What a decode needs of a prefill in one answer, and which pairs fit."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ, RESOLVE
from controlplane.domain import decodes
from controlplane.domain.topology import MAX_SIZE
from controlplane.queries import compatibility, resolve

from ..answers.pairs import PairsAnswer, ResolvedAnswer, pair_document, resolved_document
from ..bodies import Paged, Strict
from ..etags import unchanged
from ..fields import Flag, Group, Text, Whole
from ..pagination import opened, sealed
from ..view import View

MOST_PAGE_SIZE = 2**31 - 1
SIZE = {"required": False, "min_value": 1, "max_value": MAX_SIZE}
NAME = {"required": False, "max_length": decodes.MAX_TEXT}


class DecodeBody(Strict):
    """A decode engine as it describes itself; names as on SGLang's wire. What is left away is unknown, not null."""

    tp_size = Whole(**SIZE)
    cp_size = Whole(**SIZE)
    pp_size = Whole(**SIZE)
    dcp_size = Whole(**SIZE)
    is_mla = Flag(required=False)
    is_hybrid_mla = Flag(required=False)
    all_cp_ranks = Flag(required=False, help_text="SGLANG_DISAGGREGATION_ALL_CP_RANKS_TRANSFER")
    page_size = Whole(required=False, allow_null=True, min_value=1, max_value=MOST_PAGE_SIZE)
    kv_cache_dtype = Text(**NAME, allow_null=True)
    kv_layout = Text(**NAME, allow_null=True)
    dsv41_spec_layout = serializers.DictField(required=False, allow_null=True)
    decode_allocation_policy = Text(**NAME)
    state_types = serializers.ListField(child=Text(max_length=decodes.MAX_TEXT), required=False, max_length=32)
    model = Text(**NAME, help_text="The name under which it serves its model, which SGLang does not compare.")


class ResolveBody(Strict):
    """Who asks, and of which prefill."""

    instance = Text(max_length=100, help_text="The prefill.")
    decode = DecodeBody()
    engine_rank = Whole(
        required=False, allow_null=True, default=None, max_value=2**31 - 1, help_text="One rank; null: all of them."
    )
    pp_rank = Whole(required=False, default=0, max_value=MAX_SIZE - 1)
    dp = Group(default=None, help_text="One DP group of the prefill; null: all of them.")


class Resolve(View):
    """Resolve."""

    verbs = {"POST": RESOLVE}
    scope = "asked"
    reads = True
    bodies = {"POST": ResolveBody}
    answers = {"POST": {200: ResolvedAnswer, 304: None}}
    tagged = {"POST": "The launch, and every address in the answer."}
    also = {"POST": (404,)}
    action = "resolve"

    def post(self, request: Request) -> Response:
        """All that a decode needs of a prefill in one answer: which ranks it takes KV from, and their addresses

        The ETag stays while the launch and every address in the answer do; with If-None-Match the answer is then 304.
        """
        self.permit(self.body["instance"])
        found = resolve.resolve(
            self.body["instance"],
            decodes.read(self.body["decode"]),
            now=self.now,
            engine_rank=self.body["engine_rank"],
            pp_rank=self.body["pp_rank"],
            dp=self.body["dp"],
        )
        etag = f'"{found.etag}"'
        if unchanged(request._request, etag):
            return self.say(None, status=304, etag=etag)
        return self.say(resolved_document(found), etag=etag)


class PairFilters(Paged):
    prefill = Text(required=False, max_length=100)
    decode = Text(required=False, max_length=100)


class AskedDecode(Strict):
    decode = DecodeBody()


class Pairs(View):
    """Compatibility."""

    verbs = {"GET": READ, "POST": RESOLVE}
    reads = True
    queries = {"GET": PairFilters, "POST": PairFilters}
    bodies = {"POST": AskedDecode}
    answers = {"GET": {200: PairsAnswer}, "POST": {200: PairsAnswer}}
    also = {"GET": (404, 409), "POST": (404,)}
    action = "compatibility"

    def get(self, request: Request) -> Response:
        """Every prefill with every decode: the fields that disagree, and what SGLang would do"""
        return self._pairs(None)

    def post(self, request: Request) -> Response:
        """The same for a decode that describes itself: for the one named by `decode`, or for one that has no name yet"""
        return self._pairs(decodes.read(self.body["decode"]))

    def _pairs(self, posted: decodes.Decode | None) -> Response:
        found = compatibility.pairs(
            now=self.now,
            prefill=self.query.get("prefill"),
            decode=self.query.get("decode"),
            posted=posted,
            after=opened("pair", self.query.get("cursor"), str) or "",
            limit=self.query["limit"],
        )
        more: Any = sealed("pair", found.next) if found.next else None
        return self.say({"total": found.total, "items": [pair_document(row) for row in found.rows], "next": more})
