"""What was seen of an engine's own HTTP server, as sentences: of an event, and in the story of an instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .engine_health import EngineRow
from .wording import ago, span

Data = Mapping[str, Any]
NAMES = {"mode": "role", "model": "model", "version": "version"}


def told(engine: EngineRow, *, now: float) -> list[str]:
    """How it is, since when, on what that rests, and who it says that it is."""
    if not engine.at:
        return []
    if engine.asked_at is None:
        return [f"Its engine {engine.sentence}, so nothing is known of it; that keeps nobody away."]
    asked = f"asked {ago(engine.asked_at, now)}"
    if engine.is_old(now):
        asked = f"not asked for {span(now - engine.asked_at)}: this is old, and stays until somebody asks again"
    since = f" for {span(now - engine.since)}" if engine.since else ""
    said = [f"Its engine is {engine.state}{since}: {engine.sentence} ({asked})."]
    said += _signals(engine, now)
    if engine.withheld_since is not None:
        said.append(
            f"It has not answered for {span(now - engine.withheld_since)}, which is not held against it: most engines"
            " stopped answering together, so the fault is probably ours."
        )
    who = described(engine)
    if who and engine.identified_at is not None:
        said.append(f"It says that it is {who} (read {ago(engine.identified_at, now)}).")
    return said


def described(engine: EngineRow) -> str:
    """Role, model and version, as far as it tells them."""
    role = {"prefill": "a prefill", "decode": "a decode", "null": "not disaggregated"}.get(engine.mode, "")
    model = f"with model {engine.model}" if engine.model else ""
    version = f"of version {engine.version}" if engine.version else ""
    return " ".join(filter(None, (role, model, version)))


WORDS = {
    "connect": ("it accepts connections", "no connection came about"),
    "http": ("its /health answers 200", "its /health does not answer 200"),
    "progress": ("its load is fresh, so its scheduler runs", "it tells no fresh load"),
}


def _signals(engine: EngineRow, now: float) -> list[str]:
    """Which signals the last probe had, where it did not go well; and when it last did."""
    if engine.state == "up" and not engine.fails:
        return []
    found = [WORDS[name][not ok] for name, ok in engine.signals().items() if ok is not None]
    proof = f"; it was last well {ago(engine.proof_at, now)}" if engine.proof_at is not None else ""
    return [f"Of the last probe: {', '.join(found)}{proof}."] if found else []


def _identified(d: Data) -> str:
    before, after = d["before"], d["after"]
    if not before:
        who = ", ".join(f"{NAMES[name]} {value}" for name, value in after.items())
        return f"the engine at {d['at']} says who it is: {who}" if who else f"the engine at {d['at']} says who it is"
    changed = [
        f"{NAMES[name]} {before.get(name, 'not said')} \u2192 {after.get(name, 'not said')}"
        for name in NAMES
        if before.get(name) != after.get(name)
    ]
    return f"the engine at {d['at']} was started anew" + (f": {', '.join(changed)}" if changed else "")


TELL: Mapping[str, Callable[[Data], str]] = {
    "engine.turned": lambda d: f"the engine is {d['state']} now: {d['sentence']}",
    "engine.identified": _identified,
}
