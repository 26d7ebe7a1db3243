"""How the admin shows times, JSON and names of instances: columns made once, used by every list and page."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from controlplane.databases import READER
from controlplane.models import ALL_GROUPS, Instance
from controlplane.queries.wording import span

Column = Callable[[Model], Any]
MAX_SHOWN = 20_000
"""Characters of a stored text that a page shows."""


def moment(at: float | datetime.datetime | None, *, now: float | None = None) -> str:
    """`2026-05-01 10:02:11 UTC, 3 s ago`, marked up as a time; a dash for never."""
    if at is None:
        return "-"
    if isinstance(at, datetime.datetime):
        at = at.timestamp()
    try:
        stamp = datetime.datetime.fromtimestamp(at, datetime.UTC)
    except (OverflowError, ValueError):
        return str(at)
    apart = at - (time.time() if now is None else now)
    age = f"in {span(apart)}" if apart > 0 else f"{span(-apart)} ago"
    return format_html(
        '<time datetime="{}">{} UTC</time>, {}', stamp.isoformat(), stamp.strftime("%Y-%m-%d %H:%M:%S"), age
    )


def when(field: str, title: str | None = None, *, scale: float = 1.0) -> Column:
    """A column for a time, or for a number of `scale` seconds a unit. Sorted by what is stored."""

    @admin.display(description=title or _titled(field), ordering=field)
    def column(row: Model) -> str:
        value = getattr(row, field)
        return moment(value * scale if isinstance(value, float | int) else value)

    column.__name__ = f"{field}_shown"
    return column


def as_json(field: str, title: str | None = None) -> Column:
    """A column for JSON text: sentences as a list, anything else indented."""

    @admin.display(description=title or _titled(field))
    def column(row: Model) -> str:
        return pretty(getattr(row, field))

    column.__name__ = f"{field}_shown"
    return column


def pretty(text: str) -> str:
    if len(text) > MAX_SHOWN:
        return format_html("<pre>{}…</pre> (the first {} of {} characters)", text[:MAX_SHOWN], MAX_SHOWN, len(text))
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return format_html("<pre>{}</pre>", text)
    if value in (None, [], {}):
        return "-"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return format_html(
            '<ul class="plain">{}</ul>', format_html_join("", "<li>{}</li>", ((item,) for item in value))
        )
    return format_html("<pre>{}</pre>", json.dumps(value, indent=2, ensure_ascii=False))


@admin.display(description="DP group", ordering="group")
def group(row: Any) -> str:
    return group_name(row.group)


def group_name(number: int) -> str:
    return "whole instance" if number == ALL_GROUPS else f"dp{number}"


def link(to: str, text: str, *args: object) -> str:
    """A link to a named page of the admin."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{to}", args=args), text)


@admin.display(description="instance", ordering="instance_id")
def instance_by_id(row: Any) -> str:
    """The name; lists know it already (`windows.NamedChangeList`), pages of one row ask for it."""
    name = getattr(row, "instance_name", None)
    if name is None:
        name = names_of([row.instance_id]).get(row.instance_id, "")
    if not name:
        return f"instance {row.instance_id}, which is gone"
    return link("controlplane_instance_change", name, row.instance_id)


def names_of(ids: list[int]) -> dict[int, str]:
    return dict(Instance.objects.using(READER).filter(pk__in=ids).values_list("pk", "name"))


def _titled(field: str) -> str:
    return field.replace("_", " ")
