"""System checks: settings that are valid one by one and still cannot be meant together."""

import difflib
import ipaddress
import os
from typing import Any

from django.conf import settings
from django.core import checks

from controlplane import env


def register() -> None:
    checks.register(web_reachable_by_name)
    checks.register(no_misspelt_variable)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def web_reachable_by_name(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    if is_loopback(settings.PDCP_WEB_HOST) or env.text("ALLOWED_HOSTS"):
        return []
    return [
        checks.Error(
            f"ALLOWED_HOSTS is not set, but PDCP_WEB_HOST={settings.PDCP_WEB_HOST} is open to others; "
            "every request from there would be refused.",
            hint="Set ALLOWED_HOSTS to the names people use, separated by commas.",
            id="controlplane.E001",
        )
    ]


def no_misspelt_variable(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    found: list[checks.CheckMessage] = []
    for name in sorted(os.environ):
        if name.startswith("PDCP_") and name not in env.known:
            near = difflib.get_close_matches(name, env.known, n=1, cutoff=0.8)
            # Only a near miss: tools around the control plane may have variables of their own.
            if near:
                hint = f"Did you mean {near[0]}?"
                found.append(checks.Warning(f"{name} is set, but nothing reads it.", hint=hint, id="controlplane.W001"))
    return found
