"""What an instance may be called: the name stands in paths, headers and user names on SGLang's wire."""

from __future__ import annotations

import re

from .errors import Refused

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: str) -> str:
    """The name itself, or Refused."""
    if not NAME.fullmatch(name):
        raise Refused(
            "an instance name has 1 to 100 letters, digits, dots, underscores and hyphens, and starts with a letter"
            " or digit",
            code="malformed",
        )
    return name
