"""Buttons for what can be done, with the reason beside those that are off, and how to do the same from a shell."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.access.roles import ADMINISTER, LEAST_ROLE, OPERATE, Who
from controlplane.access.tokens import TokenRow
from controlplane.acts.offering import off, target_of
from controlplane.acts.table import ACTS
from controlplane.queries.alarms import AlarmRow
from controlplane.queries.drains import DrainRow
from controlplane.queries.gateways import GatewayRow
from controlplane.queries.routers import RouterRow
from controlplane.queries.rows import InstanceRow, RankRow
from dashboard.presenters import commands
from dashboard.presenters.offers import Button, reasons
from dashboard.templatetags.pdcp import icon

register = template.Library()

Context = Mapping[str, Any]
DRAIN_ACTS = {"cancel": "cancel-drain", "force": "force-drain"}


@register.simple_tag(takes_context=True)
def act(
    context: Context,
    names: str,
    row: InstanceRow | DrainRow,
    *,
    group: int | None = None,
    rank: RankRow | None = None,
    label: str = "",
    look: str = "",
    quiet: bool = False,
) -> SafeString:
    """`{% act "drain" row %}`, `{% act "drain" row group=1 %}`, `{% act "evict" row rank=rank %}`.

    `"cordon/uncordon"`: the first of them that can be done. `look`: classes such as "btn-sm". `quiet`: why it is off is
    not said beside it, only in its name: for rows of a table.
    """
    return _shown(_button(context, names, row, group, rank, label=label, look=look), quiet=quiet)


@register.simple_tag(takes_context=True)
def acts(
    context: Context,
    names: str,
    row: InstanceRow | DrainRow,
    *,
    group: int | None = None,
    rank: RankRow | None = None,
    look: str = "",
) -> SafeString:
    """`{% acts "reregister cordon/uncordon drain evict retire" row %}`: the buttons, then one line for each reason."""
    buttons = [_button(context, one, row, group, rank, look=look) for one in names.split()]
    said = {"buttons": [_html(button) for button in buttons], "why": reasons(buttons)}
    return SafeString(render_to_string("dashboard/acting/buttons.html", said))


@register.simple_tag(takes_context=True)
def drain_act(context: Context, name: str, row: DrainRow, *, look: str = "", quiet: bool = False) -> SafeString:
    """`{% drain_act "cancel" drain %}`, `{% drain_act "force" drain %}`."""
    return _shown(_button(context, DRAIN_ACTS[name], row, None, None, look=look), quiet=quiet)


@register.simple_tag(takes_context=True)
def add_act(context: Context, what: str = "instance", *, look: str = "", label: str = "") -> SafeString:
    """`{% add_act "instance" %}`, `{% add_act "router" %}`, `{% add_act "token" %}`: a new one."""
    labels = {"instance": "Add instance", "router": "Add router", "token": "Make token"}
    routes = {"instance": "add", "router": "add-router", "token": "make-token"}
    verb = ADMINISTER if what == "token" else OPERATE
    return _shown(_plain(context, label or labels[what], routes[what], "", verb=verb, look=look))


@register.simple_tag(takes_context=True)
def edit_act(context: Context, row: InstanceRow | RouterRow, *, look: str = "", quiet: bool = False) -> SafeString:
    """`{% edit_act row %}`: how an instance is reached, or where a router is and what it holds."""
    retired = isinstance(row, InstanceRow) and row.retired
    route = "edit" if isinstance(row, InstanceRow) else "edit-router"
    why = f"{row.name} is retired" if retired else ""
    return _shown(_plain(context, "Edit", route, row.name, why=why, look=look), quiet=quiet)


@register.simple_tag(takes_context=True)
def gateway_act(context: Context, name: str, row: GatewayRow, *, look: str = "", quiet: bool = False) -> SafeString:
    """`{% gateway_act "remove" gateway %}`."""
    why = "it has left" if row.left_at is not None else ""
    button = _plain(context, "Remove", f"{name}-gateway", row.name, why=why, look=look, danger=True)
    return _shown(button, quiet=quiet)


@register.simple_tag(takes_context=True)
def router_act(context: Context, name: str, row: RouterRow, *, look: str = "", quiet: bool = False) -> SafeString:
    """`{% router_act "edit" router %}`, `{% router_act "remove" router %}`."""
    label = {"edit": "Edit", "remove": "Remove"}[name]
    return _shown(_plain(context, label, f"{name}-router", row.name, look=look, danger=name == "remove"), quiet=quiet)


@register.simple_tag(takes_context=True)
def token_act(context: Context, name: str, row: TokenRow, *, look: str = "", quiet: bool = False) -> SafeString:
    """`{% token_act "revoke" token %}`. To make one: `{% add_act "token" %}`."""
    why = "it is revoked" if row.state == "revoked" else ""
    button = _plain(context, "Revoke", f"{name}-token", row.key, why=why, verb=ADMINISTER, look=look, danger=True)
    return _shown(button, quiet=quiet)


@register.simple_tag(takes_context=True)
def alarm_act(context: Context, row: AlarmRow, *, look: str = "", quiet: bool = False) -> SafeString:
    """`{% alarm_act row %}`: say that somebody looks after it, or what is done about it now."""
    why = "it is over" if row.status == "resolved" else ""
    button = _plain(context, "Acknowledge", "acknowledge-alarm", str(row.id), why=why, look=look)
    return _shown(replace(button, about=f"alarm {row.id}"), quiet=quiet)


def _button(
    context: Context,
    names: str,
    row: InstanceRow | DrainRow,
    group: int | None,
    rank: RankRow | None,
    *,
    label: str = "",
    look: str = "",
) -> Button:
    offers = [(name, off(name, row, group, rank)) for name in names.split("/")]
    name, why = next((offer for offer in offers if not offer[1]), offers[0])
    found = ACTS[name]
    target = target_of(row, group, rank)
    button = _plain(
        context, label or found.label, name, str(target), why=why, verb=found.verb, look=look, danger=found.danger
    )
    return replace(button, about=target.title)


def _plain(
    context: Context,
    label: str,
    route: str,
    on: str,
    *,
    why: str = "",
    verb: str = OPERATE,
    look: str = "",
    danger: bool = False,
) -> Button:
    who: Who = context["who"]
    if not who.may(verb):
        why = f"this needs the role {LEAST_ROLE[verb].name.lower()}"
    query = f"?{urlencode({'on': on})}" if on else ""
    return Button(label, f"{reverse('act', args=[route])}{query}", why, on, look, danger)


def _shown(button: Button, *, quiet: bool = False) -> SafeString:
    return _html(button) + _beside(button) if button.why and not quiet else _html(button)


def _html(button: Button) -> SafeString:
    # Not a template: a table of a hundred rows has hundreds of them.
    if not button.why:
        return format_html(
            '<a class="{}" href="{}" data-act aria-haspopup="dialog">{}…{}</a>',
            button.classes,
            button.url,
            button.label,
            _hidden(f" {button.about}") if button.about else "",
        )
    return format_html(
        '<button type="button" class="{}" aria-disabled="true" title="Off: {}">{}{}…{}</button>',
        button.classes,
        button.why,
        icon("lock"),
        button.label,
        _hidden(f"{f' {button.about}' if button.about else ''}, off: {button.why}"),
    )


def _hidden(text: str) -> SafeString:
    return format_html('<span class="vh">{}</span>', text)


def _beside(button: Button) -> SafeString:
    return format_html(' <span class="why-no" aria-hidden="true">off: {}</span>', button.why)


@register.simple_tag(takes_context=True)
def show_as(
    context: Context, path: str, *, cli: str = "", look: str = "btn-q", label: str = "Show as curl"
) -> SafeString:
    """`{% show_as "/api/v1/instances" cli="fleet --json" %}`: how to read the same from a shell. `cli`: after manage.py."""
    request = context.get("request")
    base = request.build_absolute_uri("/").rstrip("/") if request is not None else ""
    return shell(commands.curl(base, path), f"{commands.MANAGE} {cli}" if cli else "", look=look, label=label)


@register.simple_tag
def shell(curl: str, cli: str, *, look: str = "btn-q", label: str = "Show as curl") -> SafeString:
    """`{% shell curl cli %}`: the same for two commands that are written out already."""
    key = hashlib.sha256(f"{curl}\n{cli}".encode()).hexdigest()[:8]
    said = {"curl": curl, "cli": cli, "key": key, "look": look, "label": label}
    return SafeString(render_to_string("dashboard/acting/shell.html", said))
