"""Which Host headers are right: those of ALLOWED_HOSTS for people, any for what orchestrators and Prometheus ask."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.middleware.common import CommonMiddleware

ASKED_BY_ADDRESS = frozenset({"/livez", "/readyz", "/metrics", "/metrics/fleet"})
"""Kubernetes, load balancers and Prometheus name the address of a pod, which nobody can put into ALLOWED_HOSTS. None of
these answers holds a link, and the Host is no part of what opens the last two."""


class Common(CommonMiddleware):
    def process_request(self, request: HttpRequest) -> Any:
        return None if request.path_info in ASKED_BY_ADDRESS else super().process_request(request)
