"""Dialogs about tokens of machines: one is made and shown this once, or revoked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import path

from controlplane.access import tokens
from controlplane.access.roles import ADMINISTER, TOKEN_VERBS
from controlplane.access.tokens import TokenRow
from controlplane.domain.errors import Refused
from dashboard.presenters.asking import Line
from dashboard.presenters.commands import because, cli, curl
from dashboard.presenters.density import utc

from .editing import Editing, WhyForm

DAY = 86_400
LIVES = (("1", "1 day"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "never"))
USUAL_DAYS = "90"
MAY = {
    "read": "see what pages show",
    "resolve": "ask which pair a request should take",
    "register": "register ranks",
    "engine-info": "publish and read transfer-engine info",
    "report": "report open rooms of workers",
    "gateway": "join as a gateway, and report",
    "operate": "whatever an operator may",
}


class TokenForm(WhyForm):
    name = forms.CharField(label="name", max_length=tokens.LONGEST_NAME, help_text="what it is for")
    verbs = forms.MultipleChoiceField(
        label="may",
        choices=[(verb, f"{verb}: {MAY[verb]}") for verb in TOKEN_VERBS],
        widget=forms.CheckboxSelectMultiple,
    )
    instance = forms.CharField(label="instance", required=False, max_length=100, help_text="that one alone; blank: all")
    days = forms.ChoiceField(label="expires", required=False, choices=LIVES, initial=USUAL_DAYS)

    field_order = ("name", "verbs", "instance", "days", "reason")


class MakeToken(Editing):
    action, go, form, needs = "token.make", "Make token", TokenForm, ADMINISTER
    means = "It is shown once, and works until it expires, is revoked, or your account is closed."
    made: tuple[TokenRow, str]

    def change(self, row: None, given: dict[str, Any], expected: int | None) -> str:
        expires_at = self._expiry(given)
        made, text = tokens.make(
            given["name"],
            given["verbs"],
            given["instance"],
            expires_at,
            self.request.user,
            given["reason"],
            now=self.now,
        )
        self.made = tokens.row_of(made, now=self.now), text
        return f"made {self.made[0].key}"

    def _expiry(self, given: Mapping[str, Any]) -> float | None:
        days = given.get("days", USUAL_DAYS)
        return self.now + int(days) * DAY if days else None

    def finished(self, sentence: str) -> HttpResponse:
        row, text = self.made
        return self.show("dashboard/acting/token.html", {"token": row, "text": text}, changed=True)

    def shells(self, base: str, row: None, given: Mapping[str, Any]) -> tuple[str, str]:
        name, verbs = given.get("name") or "NAME", list(given.get("verbs") or ["read"])
        instance, why = given.get("instance") or "", given.get("reason") or "…"
        expiry = self._expiry(given)
        until = f"{utc(expiry):%Y-%m-%dT%H:%M:%SZ}" if expiry is not None else None
        body = {"name": name, "verbs": verbs, "instance": instance, "expires_at": until, "reason": why}
        words = ["tokens", "make", name, *(word for verb in verbs for word in ("--may", verb))]
        words += ["--instance", instance] if instance else []
        days = given.get("days", USUAL_DAYS)
        words += ["--expires", f"{days}d" if days else "never", "--reason", why]
        return curl(base, "/api/v1/tokens", method="POST", body=body), cli(words)


class RevokeToken(Editing):
    action, go, needs, danger = "token.revoke", "Revoke token", ADMINISTER, True
    means = "It works no more, and the sockets that were opened with it are closed."

    def subject(self) -> TokenRow:
        found = next((row for row in tokens.listing(now=self.now) if row.key == self.on), None)
        if found is None:
            raise Refused(f"no token begins with {self.on[:40]}", code="not_found")
        return found

    def name(self, row: TokenRow) -> str:
        return row.key

    def lines(self, row: TokenRow) -> Sequence[Line]:
        return (
            Line("name", row.name),
            Line("may", ", ".join(row.verbs)),
            Line("on", row.instance or "all instances"),
            Line("made by", row.made_by),
            Line("state", row.state),
        )

    def change(self, row: TokenRow, given: dict[str, Any], expected: int | None) -> str:
        if not tokens.revoke(row.key, self.who.name, given["reason"]):
            raise Refused(f"{row.key} was revoked before", code="conflict")
        return f"{row.name} ({row.key}…) is revoked"

    def shells(self, base: str, row: TokenRow, given: Mapping[str, Any]) -> tuple[str, str]:
        why = given.get("reason") or "…"
        return (
            curl(base, because(f"/api/v1/tokens/{row.key}", why), method="DELETE"),
            cli(["tokens", "revoke", row.key, "--reason", why]),
        )


urlpatterns = [
    path("act/make-token", MakeToken.as_view(), name="make-token"),
    path("act/revoke-token", RevokeToken.as_view(), name="revoke-token"),
]
