"""Every state that pages show: its word, its icon and its tone. One table, so that a word looks the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, BAD, BUSY, WANT, NONE = "ok", "warn", "bad", "busy", "want", "none"


@dataclass(frozen=True, slots=True)
class State:
    """`desired`: somebody wants it so (outlined), and nobody observed it."""

    word: str
    tone: str
    icon: str
    desired: bool = False


STATES = {
    # What is observed.
    "up": State("up", OK, "ok"),
    "routable": State("routable", OK, "ok"),
    "serving": State("serving", OK, "ok"),
    "current": State("current", OK, "ok"),
    "in_step": State("in step", OK, "ok"),
    "present": State("present", OK, "ok"),
    "live": State("live", OK, "ok"),
    "compatible": State("compatible", OK, "ok"),
    "bound": State("bound", OK, "ok"),
    "passed": State("passed", OK, "ok"),
    "consumed": State("consumed", OK, "ok"),
    "equal": State("equal", OK, "ok"),
    "fits": State("fits", OK, "ok"),
    "published": State("published", OK, "ok"),
    "complete": State("complete", OK, "ok"),
    "done": State("done", OK, "ok"),
    "let_go": State("let go", OK, "ok"),
    "zero": State("zero", OK, "ok"),
    "late": State("late", WARN, "clock"),
    "degraded": State("degraded", WARN, "warn"),
    "in_doubt": State("in doubt", WARN, "warn"),
    "stalled": State("stalled", WARN, "stall"),
    "blocked": State("blocked", WARN, "block"),
    "silent": State("silent", WARN, "clock"),
    "behind": State("behind", WARN, "clock"),
    "flushing": State("flushing", WARN, "warn"),
    "unproven": State("unproven", WARN, "unver"),
    "mismatch": State("mismatch", WARN, "neq"),
    "costly": State("costly", WARN, "warn"),
    "down": State("down", BAD, "x"),
    "refused": State("refused", BAD, "x"),
    "stranger": State("stranger", BAD, "neq"),
    "conflict": State("conflict", BAD, "neq"),
    "differs": State("differs", BAD, "neq"),
    "incompatible": State("cannot pair", BAD, "neq"),
    "away": State("away", BAD, "x"),
    "failed": State("failed", BAD, "x"),
    "filling": State("filling", BUSY, "half"),
    "starting": State("starting", BUSY, "half"),
    "candidate": State("candidate", BUSY, "half"),
    "incomplete": State("incomplete", BUSY, "half"),
    "moving": State("moving", BUSY, "half"),
    "changing": State("changing", BUSY, "half"),
    "waiting": State("waiting", BUSY, "half"),
    "busy": State("busy", BUSY, "half"),
    "holds_it": State("holds it", BUSY, "half"),
    "rooms": State("rooms", BUSY, "half"),
    "empty": State("empty", BUSY, "half"),
    "unknown": State("unknown", NONE, "q"),
    "unprobed": State("not asked yet", NONE, "q"),
    "unreached": State("unreached", NONE, "q"),
    "missing": State("missing", NONE, "miss"),
    "expired": State("expired", NONE, "clock"),
    "unbound": State("nobody bound it", NONE, "q"),
    "reported": State("reported", NONE, "said"),
    "nothing": State("nothing published", NONE, "miss"),
    "not_said": State("not said", NONE, "q"),
    "not_needed": State("not needed", NONE, "miss"),
    "unverified": State("unverified", NONE, "unver"),
    "fenced": State("fenced", NONE, "fence"),
    "ended": State("ended", NONE, "fence"),
    "replaced": State("replaced", NONE, "fence"),
    "dropped": State("dropped", NONE, "fence"),
    "left": State("left", NONE, "retired"),
    "not_observed": State("not observed", NONE, "eyeoff"),
    "registered": State("registered", OK, "ok"),
    # Alarms, and messages that tell of them.
    "critical": State("critical", BAD, "bolt"),
    "warning": State("warning", WARN, "warn"),
    "info": State("info", NONE, "info"),
    "raised": State("raised", WARN, "bell"),
    "changed": State("changed", WARN, "bell"),
    "acknowledged": State("acknowledged", BUSY, "eye"),
    "resolved": State("resolved", OK, "ok"),
    "flapping": State("flapping", WARN, "swap"),
    "clearing": State("clearing", BUSY, "half"),
    "delivered": State("delivered", OK, "ok"),
    "given_up": State("given up", BAD, "x"),
    "test": State("test", NONE, "info"),
    # Tokens.
    "active": State("active", OK, "ok"),
    "orphaned": State("orphaned", WARN, "warn"),
    "revoked": State("revoked", NONE, "retired"),
    # Breakers, as gateways say.
    "closed": State("closed", OK, "bclosed"),
    "half_open": State("half-open", WARN, "bhalf"),
    "open": State("open", BAD, "bopen"),
    "open_somewhere": State("open somewhere", WARN, "bopen"),
    # Periodic tasks, and how their rounds ended.
    "runs": State("runs", OK, "ok"),
    "ok": State("ok", OK, "ok"),
    "running": State("under way", BUSY, "half"),
    "failing": State("failing", WARN, "warn"),
    "lost": State("lost", WARN, "warn"),
    "stopped": State("stopped", BAD, "x"),
    "never": State("never ran", NONE, "q"),
    # What somebody wants.
    "enabled": State("enabled", NONE, "play", desired=True),
    "cordoned": State("cordoned", WANT, "cordon", desired=True),
    "draining": State("draining", WANT, "drain", desired=True),
    "drained": State("drained", WANT, "drained", desired=True),
    "overdue": State("overdue", BAD, "glass", desired=True),
    "forced": State("forced", BAD, "bolt", desired=True),
    "retired": State("retired", NONE, "retired", desired=True),
    "cancelled": State("cancelled", NONE, "undo", desired=True),
}


def state_of(word: str) -> State:
    """A word that is not known here is shown as it is, without a colour.

    >>> state_of("late").tone, state_of("strange").word
    ('warn', 'strange')
    """
    return STATES.get(word, State(word.replace("_", " "), NONE, "q"))
