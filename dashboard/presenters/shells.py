"""What a dialog is about to do, as curl and as our own command, with the answers given so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.acts.targets import Standing, Target
from controlplane.queries.wording import slot_key

from .commands import cli, curl

MOST = 8
"""How many targets are written out."""

COMMANDS: Mapping[str, Sequence[str]] = {
    "drain": ("drain",),
    "cancel-drain": ("drain", "--cancel"),
    "force-drain": ("drain", "--force"),
    "supersede": ("request", "supersede"),
    "readmit": ("request", "readmit"),
}
"""Our commands, where they are not named like the action."""


def of_act(base: str, name: str, standings: Sequence[Standing], answers: Mapping[str, Any]) -> tuple[str, str]:
    """curl and command, a line for each target."""
    shown = standings[:MOST]
    more = f"\n# … and {len(standings) - MOST} more likewise" if len(standings) > MOST else ""
    asked = [_curl(base, name, standing, answers) for standing in shown]
    said = [_cli(name, standing.target, answers) for standing in shown]
    return "\n".join(asked) + more, "\n".join(said) + more


def _curl(base: str, name: str, standing: Standing, answers: Mapping[str, Any]) -> str:
    target = standing.target
    body: dict[str, Any] = {"reason": answers.get("reason") or "…"}
    if target.slot is not None:
        body["slot"] = slot_key(target.slot)
        if name == "evict":
            body["launch"] = target.launch
    elif target.dp is not None:
        body["dp"] = target.dp
    if minutes := answers.get("deadline_minutes"):
        body["deadline_seconds"] = int(minutes) * 60
    if ready := answers.get("min_ready"):
        body["min_ready"] = int(ready)
    if to := answers.get("to"):
        body["to"] = to
    path = f"/api/v1/instances/{target.name}/{name}"
    return curl(base, path, method="POST", body=body, if_match=None if target.slot is not None else standing.version)


def _cli(name: str, target: Target, answers: Mapping[str, Any]) -> str:
    first, *flags = COMMANDS.get(name, (name,))
    words = [first, *(flags if first == "request" else ()), target.name]
    words += flags if first != "request" else ()
    if target.slot is not None:
        words += ["--slot", slot_key(target.slot)]
        if name == "evict":
            words += ["--launch", str(target.launch)]
    elif target.dp is not None:
        words += ["--dp", str(target.dp)]
    if minutes := answers.get("deadline_minutes"):
        words += ["--deadline", f"{int(minutes)}m"]
    if ready := answers.get("min_ready"):
        words += ["--min-ready", str(int(ready))]
    if (to := answers.get("to")) and to != "enabled":
        words += ["--to", to]
    return cli([*words, "--reason", answers.get("reason") or "…"])
