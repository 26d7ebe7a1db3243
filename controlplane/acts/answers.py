"""What the bootstrap process answers to requests, for whoever waits a moment for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from controlplane.commands import requests

from .cases import Result

PATIENCE_SECONDS = 2.0
"""For all of them together. It answers within milliseconds while it leads; else nobody knows how long."""


def answered(results: Iterable[Result], *, patience: float) -> Iterator[Result]:
    """The same, with the answer in the place of the number of the request, where it came in time."""
    until = time.monotonic() + patience
    for result in results:
        number = result.did.request if result.did is not None else None
        if number is None:
            yield result
            continue
        answer = requests.wait_for_answer(number, timeout=max(0.0, until - time.monotonic()))
        if answer is None:
            said = f"{result.sentence}, which has not answered yet; the events will say what it did"
            yield replace(result, sentence=said)
        elif answer.granted:
            yield replace(result, sentence=f"{result.target.title}: {answer.sentence}")
        else:
            yield replace(result, status=409, sentence=answer.sentence, did=None)
