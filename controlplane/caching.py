"""How the cache keeps values in Redis: as JSON. Django's own way is pickle, and whoever writes to that Redis could then run
code here.
"""

from __future__ import annotations

import json
from typing import Any


class JsonSerializer:
    """What Django's Redis cache asks of a serializer. Integers stay as they are: Redis counts with them itself."""

    def dumps(self, value: Any) -> bytes | int:
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        """None, as if nothing were there, for what nobody here has written."""
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
