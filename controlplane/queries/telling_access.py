"""Sentences of the events about access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

TELL: Mapping[str, Callable[[Mapping[str, Any]], str]] = {}
