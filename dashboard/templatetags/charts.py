"""Small charts in templates."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.presenters.sparks import spark_of

register = template.Library()


@register.simple_tag
def spark(values: Sequence[float | None], width: int = 72, height: int = 20) -> SafeString:
    """`{% spark row.values %}`: how a number went, from zero. A decoration: the number itself stands beside it."""
    drawn = spark_of(values, width=width, height=height)
    lines = format_html_join("", '<polyline points="{}"/>', ((line,) for line in drawn.lines))
    dot = format_html('<circle cx="{}" cy="{}" r="1.7"/>', *drawn.dot) if drawn.dot else ""
    return format_html(
        '<svg class="spark" width="{}" height="{}" aria-hidden="true">'
        '<line class="axis-l" x1="0" x2="{}" y1="{}" y2="{}"/>{}{}</svg>',
        width,
        height,
        width - 3,
        height - 0.5,
        height - 0.5,
        lines,
        dot,
    )
