"""Answers about tokens and attempts."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ..fields import Moment
from .base import Answer, Sentences, page_of

Chars, Int, Bool = serializers.CharField, serializers.IntegerField, serializers.BooleanField


class TokenAnswer(Answer):
    """A token as it is kept: what it may do, never what it is."""

    key = Chars(help_text="Its beginning, by which it is called and revoked.")
    name = Chars()
    verbs = Sentences()
    instance = Chars(allow_blank=True, help_text="The one instance it is bound to; empty: all.")
    state = serializers.ChoiceField(["active", "expired", "revoked", "orphaned"])
    made_by = Chars()
    made_at = Moment()
    expires_at = Moment(allow_null=True)
    last_used_at = Moment(allow_null=True)
    revoked_at = Moment(allow_null=True)
    revoked_by = Chars(allow_blank=True)


class TokenMadeAnswer(TokenAnswer):
    """The only answer that ever holds a token."""

    token = Chars(allow_null=True, help_text="Shown this once; null when the answer is given again.")
    sentence = Chars()


class TokenRevokedAnswer(Answer):
    key = Chars()
    changed = Bool()
    sentence = Chars()


class AttemptAnswer(Answer):
    """Who tried to change what, and whether it was allowed."""

    id = Chars()
    at = Moment()
    actor = Chars()
    via = Chars()
    source = Chars(allow_blank=True)
    action = Chars()
    target = Chars(allow_blank=True)
    reason = Chars(allow_blank=True)
    allowed = Bool()
    status = Int()
    outcome = Chars(allow_blank=True)
    request_id = Chars(allow_blank=True)


TokensAnswer: Any = page_of(TokenAnswer, "TokenPage")
AttemptsAnswer: Any = page_of(AttemptAnswer, "AttemptPage")
