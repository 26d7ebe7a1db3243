"""What the plugin is told by its environment, checked at once: each problem is a sentence that names the variable."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.domain.errors import Refused
from controlplane.domain.names import check_name
from workers.sdk import BadAddress, ControlPlane, WorkerError
from workers.sdk.identity import VARIABLE, launch_token
from workers.sdk.tokens import Token, TokenFile

LEASE_SECONDS = 15.0


class BadSettings(ValueError):
    """The sentence names the variable; the plugin then does nothing."""


class Mode(enum.StrEnum):
    REPORT = "report"
    """The engine's own bootstrap server stays; the control plane has a copy."""
    AUTHORITY = "authority"
    """Ranks register at the control plane alone; the engine starts no bootstrap server."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`instance` None: called after its host and HTTP port. `share`: of the rooms without a failure that are told of."""

    plane: ControlPlane
    mode: Mode = Mode.REPORT
    instance: str | None = None
    lease_seconds: float = LEASE_SECONDS
    share: float = 1.0


def read(env: Mapping[str, str]) -> Settings:
    """Raises BadSettings.

    >>> read({"PD_CONTROL_PLANE": "cp.rack:8998", "PD_INSTANCE": "prefill-a"}).mode
    <Mode.REPORT: 'report'>
    """
    given = {name: text for name in env if name.startswith("PD_") and (text := env[name].strip())}
    try:
        plane = ControlPlane.at(
            given["PD_CONTROL_PLANE"],
            engine=given.get("PD_ENGINE_INFO"),
            api=given.get("PD_API"),
            instance=given.get("PD_INSTANCE"),
            token=_token(given),
        )
        instance = check_name(plane.instance) if plane.instance is not None else None
    except (BadAddress, Refused) as problem:
        names = ", ".join(
            name for name in ("PD_CONTROL_PLANE", "PD_ENGINE_INFO", "PD_API", "PD_INSTANCE") if name in given
        )
        raise BadSettings(f"one of {names} cannot be used: {problem.sentence}") from None
    try:
        # The environment's own is left as it is, and so is its absence.
        launch_token({VARIABLE: given.get(VARIABLE, "none")})
    except WorkerError as problem:
        raise BadSettings(problem.sentence) from None
    word = given.get("PD_MODE", Mode.REPORT.value).lower()
    if word not in list(Mode):
        raise BadSettings(f"PD_MODE is {' or '.join(Mode)}, not {word[:40]!r}")
    return Settings(
        plane,
        Mode(word),
        instance,
        _number(given, "PD_LEASE_SECONDS", LEASE_SECONDS, least=1.0, most=600.0),
        _number(given, "PD_EVIDENCE_SHARE", 1.0, least=0.0, most=1.0),
    )


def _token(given: Mapping[str, str]) -> Token | None:
    """From a file where one is named: an environment is read by every tool that lists processes."""
    path = given.get("PD_TOKEN_FILE")
    if path is None:
        return given.get("PD_TOKEN")
    try:
        return TokenFile(Path(path))
    except (OSError, BadAddress) as problem:
        raise BadSettings(f"PD_TOKEN_FILE cannot be read: {problem}") from None


def _number(given: Mapping[str, str], name: str, default: float, *, least: float, most: float) -> float:
    try:
        value = float(given.get(name, default))
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise BadSettings(f"{name} must be a number from {least:g} to {most:g}")
    return value
