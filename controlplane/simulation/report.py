"""What a simulation says while it runs: a line for people, or a JSON object a line."""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any, TextIO

MANY = 32


class Reporter:
    """Tells what happened. `detail` is left out for people when there are many ranks."""

    def __init__(self, *, as_json: bool, ranks: int, out: TextIO | None = None) -> None:
        self._json, self._many, self._out = as_json, ranks > MANY, out or sys.stdout

    def tell(self, what: str, sentence: str, *, detail: bool = False, **facts: Any) -> None:
        """`what` is the stable word for machines, `sentence` the same for people."""
        now = datetime.datetime.now(datetime.UTC)
        if self._json:
            at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            print(json.dumps({"at": at, "what": what, **facts}), file=self._out, flush=True)
        elif not (detail and self._many):
            print(f"{now.astimezone():%H:%M:%S} {sentence}", file=self._out, flush=True)
