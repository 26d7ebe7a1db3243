"""ETag and If-Match on what people edit: two who edit at once do not overwrite one another without knowing."""

from __future__ import annotations

import re

from django.http import HttpRequest

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.models import Instance

TAG = re.compile(r'"([0-9]{1,18})"')
NEVER = -1
"""A version that nothing has: what was sent is no tag of ours, so it matches nothing."""


def tag(version: int) -> str:
    return f'"{version}"'


def instance_version(name: str) -> int:
    """As it is after a change, from the database that was written to."""
    return int(Instance.objects.using(FACTS).values_list("version", flat=True).get(name=name))


def expected(request: HttpRequest, *, required: bool) -> int | None:
    """The version the client saw, None for any. Raises Refused (428) when one is required and none was sent.

    `If-Match: *` says that the client does not care. A tag we never gave out is a version that nothing has.
    """
    sent = request.META.get("HTTP_IF_MATCH")
    given = (sent or "").strip()
    if sent is not None and not given:
        raise Refused("If-Match is empty", code="malformed")
    if sent is None:
        if required:
            raise Refused(
                "send If-Match with the ETag of what you saw, or * to change it whatever it is now",
                code="if_match_missing",
            )
        return None
    if given == "*":
        return None
    if "," in given:
        raise Refused("If-Match takes one ETag, not a list", code="malformed")
    found = TAG.fullmatch(given)
    return int(found[1]) if found else NEVER


def unchanged(request: HttpRequest, etag: str) -> bool:
    """Whether If-None-Match names this tag: then 304 says it all. Weak tags match here (RFC 9110, 13.1.2)."""
    given = request.META.get("HTTP_IF_NONE_MATCH", "")
    return given.strip() == "*" or etag in (part.strip().removeprefix("W/") for part in given.split(","))
