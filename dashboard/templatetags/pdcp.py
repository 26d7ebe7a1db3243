"""What templates of the dashboard say with: icons, states, times, copy buttons, parts."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.page import Part, render_part
from dashboard.presenters.ages import age_text
from dashboard.presenters.numbers import amount
from dashboard.presenters.states import State, state_of

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """`{% icon "ok" %}`: a decoration; the word beside it says the same."""
    return format_html('<svg class="i" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def state(word: str, kind: str = "", more: str = "") -> SafeString:
    """`{% state "late" %}`: icon, word and colour. `kind`: "", "desired" (outlined), "plain" (in a line), "solid"."""
    found: State = state_of(word)
    kind = kind or ("desired" if found.desired else "")
    return format_html(
        '<span class="st t-{}{}"><svg class="i" aria-hidden="true"><use href="#i-{}"/></svg>{}{}</span>',
        found.tone,
        f" {kind}" if kind else "",
        found.icon,
        found.word,
        f" {more}" if more else "",
    )


@register.simple_tag(takes_context=True)
def age(context: Mapping[str, Any], at: float | None, never: str = "never") -> SafeString:
    """`{% age row.seen_at %}`: how long ago, counting on in the browser; when exactly, on hover. Epoch seconds."""
    if at is None:
        return format_html('<span class="age">{}</span>', never)
    return _time(at, "age", age_text(context["now"] - at))


@register.simple_tag(takes_context=True)
def until(context: Mapping[str, Any], at: float | None, never: str = "–") -> SafeString:
    """`{% until row.deadline_at %}`: how long until then."""
    if at is None:
        return format_html('<span class="age">{}</span>', never)
    return _time(at, "until", age_text(at - context["now"]))


@register.simple_tag
def clock(at: float | None, never: str = "–") -> SafeString:
    """`{% clock row.at %}`: the time of day, with the date on hover, in UTC or in the browser's zone."""
    if at is None:
        return format_html('<span class="age">{}</span>', never)
    return _time(at, "clock", f"{_utc(at):%H:%M:%S}")


@register.simple_tag
def copy(text: str, what: str = "") -> SafeString:
    """`{% copy row.address "address" %}`: a button that copies `text`."""
    return format_html(
        '<button class="ib sm" type="button" data-copy="{}" aria-label="Copy {}" title="Copy {}">'
        '<svg class="i" aria-hidden="true"><use href="#i-copy"/></svg></button>',
        text,
        what or text,
        what or text,
    )


@register.simple_tag(takes_context=True)
def part(context: template.RequestContext, name: str) -> str:
    """`{% part "attention" %}`: a part of the page, in the element that live updates find it by."""
    known: Mapping[str, Part] = context["known_parts"]
    flat: dict[Any, Any] = context.flatten()
    return SafeString(render_part(name, known[name], flat, context.request))


@register.filter
def thousands(number: float | int | None) -> str:
    """
    >>> thousands(1284), thousands(None)
    ('1,284', '–')
    """
    return "–" if number is None else f"{number:,}"


@register.filter
def figure(number: float | None) -> str:
    """Three digits that matter: what is small is not nothing.

    >>> figure(0.0489), figure(52.222)
    ('0.05', '52.2')
    """
    return amount(number)


@register.filter
def coded(sentence: str) -> SafeString:
    """What stands between backticks, a command to type, as code.

    >>> coded("`manage.py explain <NAME>` says why")
    '<code>manage.py explain &lt;NAME&gt;</code> says why'
    """
    parts = str(sentence).split("`")
    if len(parts) % 2 == 0:
        # One that is not closed is no more than a character.
        return format_html("{}", sentence)
    pieces = (format_html("<code>{}</code>", part) if at % 2 else part for at, part in enumerate(parts))
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def _utc(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, datetime.UTC)


def _time(at: float, kind: str, text: str) -> SafeString:
    moment = _utc(at)
    return format_html(
        '<time datetime="{}" title="{}" data-{}>{}</time>',
        moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{moment:%Y-%m-%d %H:%M:%S} UTC",
        kind,
        text,
    )


@register.filter
def sheets(names: str) -> list[str]:
    """Our style sheets, in this order, as paths of static files."""
    return [f"dashboard/css/{name}.css" for name in names.split()]
