"""Operations: what takes time, and how it ended."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.queries import operations

from ..answers.changes import OperationAnswer
from ..bodies import Query
from ..fields import Number
from ..view import View
from ..waiting import MOST_SECONDS


class WaitForEnd(Query):
    wait = Number(
        required=False,
        default=0.0,
        min_value=0,
        max_value=MOST_SECONDS,
        help_text="While it is running, wait so many seconds for its end.",
    )


class OneOperation(View):
    """One operation."""

    verbs = {"GET": READ}
    scope = "asked"
    queries = {"GET": WaitForEnd}
    answers = {"GET": {200: OperationAnswer}}

    def get(self, request: Request, operation: str) -> Response:
        """How far an operation is; with `wait` a long poll for its end"""
        row = operations.operation(operation, now=self.now)
        self.permit(row.instance)
        return self.say(OperationAnswer.of(row))
