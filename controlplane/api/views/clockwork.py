"""Periodic tasks: when they ran last, how that ended, and who runs them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import READ
from controlplane.queries import clockwork

from ..answers.clockwork import ClockworkAnswer
from ..view import View


class Clockwork(View):
    """The clockwork."""

    verbs = {"GET": READ}
    answers = {"GET": {200: ClockworkAnswer}}

    def get(self, request: Request) -> Response:
        """Every periodic task with its rounds, what failed lately, and the processes that run them"""
        return self.say(ClockworkAnswer.of(clockwork.document(now=self.now)))
