"""What the demo says on the terminal: where to look, what happens, how it ended."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from .chaos import Tale
from .gateway import Gateway
from .plan import DECODES, GATEWAY, PREFILL, REPLICA, SEED, USER, Plan
from .settings import Settings

PAGES = (
    ("/", "the fleet, and what needs somebody"),
    (f"/instances/{PREFILL}/", "dp2 · tp2: four ranks, their launch, why they serve"),
    ("/rooms/", "requests on their way; each with the five rungs that prove it"),
    ("/pairs/", f"{PREFILL} with {' and '.join(DECODES)}: who fits whom"),
    (f"/gateways/{GATEWAY}/", "who sends the requests, and how they ended"),
    ("/weights/", f"{SEED} gives, {REPLICA} has taken"),
    ("/events/", "everything that happened, as it happens"),
)


def say(line: str) -> None:
    # The terminal may be gone (SIGHUP); ending must go on without it.
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def now_line(text: str) -> None:
    """With the time of day, so that it can be found on the pages; further lines below it."""
    first, *rest = text.split("\n")
    say("\n".join([f"{time.strftime('%H:%M:%S')}  {first}", *(f"          {line}" for line in rest)]))


def announce(settings: Settings, plan: Plan, directory: Path, password: str, seconds: float) -> None:
    say("")
    say(f"the fleet is up ({seconds:.1f} s)")
    say(f"  web        {plan.web}/")
    # Whoever reads the output signs in as administrator: it goes to a person at a terminal, or stays in a file of theirs.
    where = password if sys.stdout.isatty() else f"the text of {directory / 'password'}"
    say(f"  sign in    user {USER}, password {where}")
    for path, what in PAGES:
        say(f"  {path:<24} {what}")
    say(f"  logs       {directory / 'logs'}")
    if settings.chaos:
        say(
            f"In {settings.calm:g} s things begin to be broken and mended, for {settings.seconds:g} s, "
            f"in the order of seed {settings.seed}."
        )
    say("Ctrl-C ends everything.")
    say("")


def counted(gateway: Gateway) -> str:
    held = f", {gateway.held} found nobody to serve them" if gateway.held else ""
    return f"{gateway.sent} requests, {gateway.failed or 'none'} failed{held}"


def closing(gateway: Gateway, tale: Tale) -> None:
    say("")
    say(counted(gateway))
    if tale.healed:
        say(f"{len(tale.healed)} times something was broken, shown and mended: {', '.join(tale.healed)}")
    for sentence in tale.wrong:
        say(f"wrong: {sentence}")
