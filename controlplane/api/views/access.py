"""Tokens of machines, and the audit: who tried what."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access import attempts, tokens
from controlplane.access.roles import ADMINISTER, TOKEN_VERBS

from ..answers.access import (
    AttemptAnswer,
    AttemptsAnswer,
    TokenAnswer,
    TokenMadeAnswer,
    TokenRevokedAnswer,
    TokensAnswer,
)
from ..bodies import Paged, Reason, WhyDelete
from ..fields import Choice, Flag, Moment, Text
from ..pagination import opened, page
from ..view import View

SHOWN = "this is the only time that the token is shown"
NOT_AGAIN = "the token was shown once, with the first answer to this request; revoke it and make another if it is lost"


class NewToken(Reason):
    name = Text(max_length=100)
    verbs = serializers.ListField(
        child=Choice(choices=TOKEN_VERBS), min_length=1, max_length=len(TOKEN_VERBS), help_text="What it may do."
    )
    instance = Text(
        required=False, default="", allow_blank=True, max_length=100, help_text="Bind it to one instance; empty: all."
    )
    expires_at = Moment(required=False, allow_null=True, default=None, help_text="Null: never.")


class TokenFilters(Paged):
    state = Choice(choices=("active", "expired", "revoked", "orphaned"), required=False)


class AttemptFilters(Paged):
    actor = Text(required=False, max_length=150)
    action = Text(required=False, max_length=60)
    target = Text(required=False, max_length=200)
    allowed = Flag(required=False)


class Tokens(View):
    """Tokens."""

    verbs = {"GET": ADMINISTER, "POST": ADMINISTER}
    queries = {"GET": TokenFilters}
    bodies = {"POST": NewToken}
    answers = {"GET": {200: TokensAnswer}, "POST": {201: TokenMadeAnswer}}
    action = "token.make"

    def get(self, request: Request) -> Response:
        """All tokens, the newest first, revoked ones too; never the tokens themselves"""
        limit, cursor = self.query["limit"], opened("token", self.query.get("cursor"), str)
        wanted = self.query.get("state")
        # A later one stands before: the cursor is the last one's time and key.
        found = sorted(tokens.listing(now=self.now), key=_place, reverse=True)
        rows = [r for r in found if (cursor is None or _place(r) < cursor) and wanted in (None, r.state)]
        cut = page(rows, order="token", key=_place, limit=limit)
        return self.say({"items": TokenAnswer.all_of(cut.items), "next": cut.next})

    def post(self, request: Request) -> Response:
        """Make a token: its text is in this answer, and never to be had again"""
        made, text = tokens.make(
            self.body["name"],
            self.body["verbs"],
            self.body["instance"],
            self.body["expires_at"],
            request.user,
            self.body["reason"],
            now=self.now,
        )
        row = tokens.row_of(made, now=self.now)
        fields = {name: getattr(row, name) for name in row.__dataclass_fields__}
        document = TokenMadeAnswer.of({**fields, "token": text, "sentence": SHOWN})
        return self.say(document, status=201, location=f"/api/v1/tokens/{row.key}")

    def kept(self, document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "token": None, "sentence": NOT_AGAIN} if "token" in document else document


class OneToken(View):
    """One token."""

    verbs = {"DELETE": ADMINISTER}
    queries = {"DELETE": WhyDelete}
    answers = {"DELETE": {200: TokenRevokedAnswer}}
    action = "token.revoke"

    def delete(self, request: Request, key: str) -> Response:
        """Revoke a token: it works no more, and the sockets opened with it are closed"""
        changed = tokens.revoke(key, self.who.name, self.query["reason"])
        sentence = f"{key} is revoked" if changed else f"{key} was revoked before"
        return self.say({"key": key, "changed": changed, "sentence": sentence})


class Attempts(View):
    """The audit."""

    verbs = {"GET": ADMINISTER}
    queries = {"GET": AttemptFilters}
    answers = {"GET": {200: AttemptsAnswer}}

    def get(self, request: Request) -> Response:
        """Who tried to change what, from where and why, and whether it was allowed, the newest first"""
        limit = self.query["limit"]
        found = attempts.listing(
            limit=limit + 1,
            before=opened("attempt", self.query.get("cursor"), int),
            **{key: self.query[key] for key in ("actor", "action", "target", "allowed") if key in self.query},
        )
        cut = page(found, order="attempt", key=lambda row: row.id, limit=limit)
        return self.say({"items": AttemptAnswer.all_of(cut.items), "next": cut.next})


def _place(row: tokens.TokenRow) -> str:
    return f"{row.made_at:017.6f} {row.key}"
