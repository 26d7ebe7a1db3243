"""Dialogs that add an instance, and change how one is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.urls import path

from controlplane.commands import instances
from controlplane.commands.instances import KEEP
from controlplane.queries import fleet
from controlplane.queries.rows import InstanceRow
from dashboard.presenters.asking import Line
from dashboard.presenters.commands import cli, curl

from .editing import Editing, WhyForm

ROLES = [("prefill", "prefill"), ("decode", "decode"), ("seed", "seed")]
URLS = ("engine_url", "observed_url", "observed_engine_info_url")
PROBING = ("probe_seconds", "fail_after", "pass_after")
REACH = ("own_port", "host_alias", *URLS, *PROBING)
FLAGS = {"observed_url": "observe", "observed_engine_info_url": "observe-info"}
SECRET = forms.PasswordInput(attrs={"autocomplete": "new-password"})


class ReachForm(WhyForm):
    """How an instance is reached, and where its engine is asked for its load."""

    own_port = forms.IntegerField(
        label="own port", required=False, min_value=1, max_value=65535, help_text="a KV port that means it alone"
    )
    host_alias = forms.CharField(
        label="host alias", required=False, max_length=253, help_text="a DNS name that means it alone"
    )
    engine_url = forms.CharField(
        label="engine URL",
        required=False,
        max_length=500,
        help_text="its engine's HTTP server: asked how it is, and for its load when it drains",
    )
    engine_key = forms.CharField(label="engine key", required=False, max_length=500, strip=False, widget=SECRET)
    observed_url = forms.CharField(
        label="observed at",
        required=False,
        max_length=500,
        help_text="its own KV bootstrap server (of a decode: its HTTP server), polled; its ranks need not know of us",
    )
    observed_engine_info_url = forms.CharField(
        label="weights observed at", required=False, max_length=500, help_text="its own engine-info server, polled"
    )
    probe_seconds = forms.FloatField(
        label="probed every", required=False, min_value=0.2, max_value=3600, help_text="seconds; blank: as all engines"
    )
    fail_after = forms.IntegerField(
        label="unhealthy after", required=False, min_value=1, max_value=100, help_text="misses in a row; blank: as all"
    )
    pass_after = forms.IntegerField(
        label="healthy after", required=False, min_value=1, max_value=100, help_text="answers in a row; blank: as all"
    )


class NewForm(ReachForm):
    name = forms.CharField(label="name", max_length=100, widget=forms.TextInput(attrs={"spellcheck": "false"}))
    role = forms.ChoiceField(label="role", choices=ROLES, initial="prefill")

    field_order = ("name", "role", *REACH, "engine_key", "reason")


class EditForm(ReachForm):
    no_key = forms.BooleanField(label="no key", required=False, help_text="take the engine's key away")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["engine_key"].help_text = "blank: stays as it is"


class AddInstance(Editing):
    action, go, form = "instance.add", "Add instance", NewForm
    means = "Ranks that register under this name belong to it. A retired one of that name is there again."

    def change(self, row: None, given: dict[str, Any], expected: int | None) -> str:
        wanted = {**given, "host_alias": given["host_alias"] or None}
        done = instances.add(wanted.pop("name"), **wanted, actor=self.who.name)
        return ". ".join([done.sentence, *done.advice])

    def shells(self, base: str, row: None, given: Mapping[str, Any]) -> tuple[str, str]:
        name, said = given.get("name") or "NAME", _said(given)
        body = {"name": name, "role": given.get("role") or "prefill", **said}
        flags = ["--role", str(body["role"]), *_flags(said)]
        return curl(base, "/api/v1/instances", method="POST", body=body), cli(["instances", "add", name, *flags])


class EditInstance(Editing):
    action, go, form = "instance.edit", "Edit", EditForm
    means = "What is blank is taken away. Who is registered does not change."

    def subject(self) -> InstanceRow:
        return fleet.instance(self.on, now=self.now)[0]

    def initial(self, row: InstanceRow) -> dict[str, Any]:
        said = {name: getattr(row, name) for name in (*URLS, *PROBING)}
        return {"own_port": row.own_port, "host_alias": row.host_alias or "", **said}

    def lines(self, row: InstanceRow) -> Sequence[Line]:
        return (Line("role", row.role), Line("desired", row.intent))

    def change(self, row: InstanceRow, given: dict[str, Any], expected: int | None) -> str:
        key = "" if given["no_key"] else given["engine_key"] or KEEP
        done = instances.edit(
            row.name,
            own_port=given["own_port"],
            host_alias=given["host_alias"] or None,
            engine_url=given["engine_url"],
            engine_key=key,
            observed_url=given["observed_url"],
            observed_engine_info_url=given["observed_engine_info_url"],
            **{name: given[name] for name in PROBING},
            actor=self.who.name,
            reason=given["reason"],
            expected=expected,
        )
        return ". ".join([done.sentence, *done.advice])

    def shells(self, base: str, row: InstanceRow, given: Mapping[str, Any]) -> tuple[str, str]:
        said = _said(given)
        for name in REACH:
            said.setdefault(name, "" if name in URLS else None)
        body = curl(base, f"/api/v1/instances/{row.name}", method="PATCH", body=said, if_match=row.version)
        return body, cli(["instances", "edit", row.name, *_flags(said), "--if-version", str(row.version)])


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, and never a secret."""
    said = {name: given[name] for name in REACH if given.get(name)}
    return {**said, "reason": given.get("reason") or "…"}


def _flags(said: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name in REACH:
        flag = FLAGS.get(name) or name.replace("_", "-")
        if said.get(name):
            words += [f"--{flag}", str(said[name])]
        elif name in said:
            words.append(f"--no-{flag}")
    return [*words, "--reason", str(said["reason"])]


urlpatterns = [
    path("act/add", AddInstance.as_view(), name="add-instance"),
    path("act/edit", EditInstance.as_view(), name="edit-instance"),
]
