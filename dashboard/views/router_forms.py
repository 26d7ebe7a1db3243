"""Dialogs about those who choose workers: routers are added, changed and let go of; gateways that are gone are removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.urls import path

from controlplane.acts.keys import check_keys
from controlplane.commands import gateways as gateway_commands
from controlplane.commands import routers as commands
from controlplane.commands.instances import KEEP
from controlplane.domain.errors import Refused
from controlplane.queries import gateways, routers
from controlplane.queries.gateways import GatewayRow
from controlplane.queries.routers import RouterRow
from dashboard.presenters.asking import Line, named
from dashboard.presenters.commands import because, curl

from .editing import Editing, WhyForm
from .instance_forms import SECRET

LONGEST_LIST = 120_000
"""Characters: a thousand names of a hundred."""


class RouterForm(WhyForm):
    url = forms.CharField(label="URL", max_length=500, help_text="where it listens, such as http://10.0.0.9:30000")
    instances = forms.CharField(
        label="instances",
        required=False,
        max_length=LONGEST_LIST,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text="names that it shall hold, one a line",
    )
    metrics_url = forms.CharField(
        label="metrics URL",
        required=False,
        max_length=500,
        help_text="where its breakers are read; blank: they are not",
    )
    api_key = forms.CharField(label="key", required=False, max_length=500, strip=False, widget=SECRET)

    def clean_instances(self) -> list[str]:
        return list(dict.fromkeys(self.cleaned_data["instances"].replace(",", " ").split()))


class NewRouterForm(RouterForm):
    name = forms.CharField(label="name", max_length=100, widget=forms.TextInput(attrs={"spellcheck": "false"}))

    field_order = ("name", "url", "instances", "metrics_url", "api_key", "reason")


class EditRouterForm(RouterForm):
    no_key = forms.BooleanField(label="no key", required=False, help_text="take its key away")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["api_key"].help_text = "blank: stays as it is"


class AddRouter(Editing):
    action, go, form = "router.add", "Add router", NewRouterForm
    means = "It is kept in step with these instances from now on: those that can be sent work are its workers."

    def change(self, row: None, given: dict[str, Any], expected: int | None) -> str:
        check_keys(self.who, given["instances"])
        return commands.add(**given, actor=self.who.name).sentence

    def shells(self, base: str, row: None, given: Mapping[str, Any]) -> tuple[str, str]:
        body = {"name": given.get("name") or "NAME", **_said(given)}
        return curl(base, "/api/v1/routers", method="POST", body=body), ""


class OnRouter(Editing):
    def subject(self) -> RouterRow:
        return routers.router(self.on)

    def lines(self, row: RouterRow) -> Sequence[Line]:
        return (Line("now", row.sentence(self.now)),)


class EditRouter(OnRouter):
    action, go, form = "router.edit", "Edit router", EditRouterForm
    means = "An instance that is taken off the list is taken out of the router."

    def initial(self, row: RouterRow) -> dict[str, Any]:
        return {"url": row.url, "instances": "\n".join(row.instances), "metrics_url": row.metrics_url}

    def change(self, row: RouterRow, given: dict[str, Any], expected: int | None) -> str:
        if given["url"] != row.url or tuple(given["instances"]) != row.instances:
            check_keys(self.who, given["instances"])
        return commands.edit(
            row.name,
            url=given["url"],
            instances=given["instances"],
            metrics_url=given["metrics_url"],
            api_key="" if given["no_key"] else given["api_key"] or KEEP,
            expected=expected,
            actor=self.who.name,
            reason=given["reason"],
        ).sentence

    def shells(self, base: str, row: RouterRow, given: Mapping[str, Any]) -> tuple[str, str]:
        path = f"/api/v1/routers/{row.name}"
        return curl(base, path, method="PATCH", body=_said(given), if_match=row.version), ""


class RemoveRouter(OnRouter):
    action, go, danger = "router.remove", "Remove router", True
    means = "Nobody keeps it in step any more; the workers that it holds stay in it."

    def lines(self, row: RouterRow) -> Sequence[Line]:
        held = [member.instance for member in row.members if member.present]
        return (*super().lines(row), Line("it holds", named(held) or "nothing"))

    def change(self, row: RouterRow, given: dict[str, Any], expected: int | None) -> str:
        return commands.remove(row.name, expected=expected, actor=self.who.name, reason=given["reason"]).sentence

    def shells(self, base: str, row: RouterRow, given: Mapping[str, Any]) -> tuple[str, str]:
        path = because(f"/api/v1/routers/{row.name}", given.get("reason") or "…")
        return curl(base, path, method="DELETE", if_match=row.version), ""


class RemoveGateway(Editing):
    action, go, danger = "gateway.leave", "Remove gateway", True
    means = "Drains wait for it no longer, and its breakers are forgotten. If it still runs, it joins again by itself."

    def subject(self) -> GatewayRow:
        return gateways.gateway(self.on)

    def lines(self, row: GatewayRow) -> Sequence[Line]:
        still = row.left_at is None and not row.silent(self.now)
        said = Line("admits", "it is heard from: it may go on sending requests, and no drain waits for it", "warn")
        return (Line("now", row.sentence(self.now)), *((said,) if still else ()))

    def change(self, row: GatewayRow, given: dict[str, Any], expected: int | None) -> str:
        reason = given["reason"]
        if not gateway_commands.leave(row.name, actor=self.who.name, reason=reason, why="it was removed", now=self.now):
            raise Refused(f"{row.name} had left already", code="conflict")
        return f"{row.name} was removed"

    def shells(self, base: str, row: GatewayRow, given: Mapping[str, Any]) -> tuple[str, str]:
        path = because(f"/api/v1/gateways/{row.name}", given.get("reason") or "…")
        return curl(base, path, method="DELETE"), ""


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, and never a secret."""
    members = given.get("instances") or []
    names = members.split() if isinstance(members, str) else list(members)
    return {
        "url": given.get("url") or "http://HOST:PORT",
        "instances": names,
        "metrics_url": given.get("metrics_url") or "",
        "reason": given.get("reason") or "…",
    }


urlpatterns = [
    path("act/add-router", AddRouter.as_view(), name="add-router"),
    path("act/edit-router", EditRouter.as_view(), name="edit-router"),
    path("act/remove-router", RemoveRouter.as_view(), name="remove-router"),
    path("act/remove-gateway", RemoveGateway.as_view(), name="remove-gateway"),
]
