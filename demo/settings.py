"""What `python -m demo` is told, checked at once: each problem is a sentence with the option."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .plan import ACTS, PORTS

FIRST_PORT = 28_100
CHAOS_SECONDS = 300.0
CALM_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`seconds`: of chaos, or of all of it; None: until it is ended. `calm`: before the first act. `first_port`: the first of
    PORTS in a row; 0: any that are free. `data`: kept when it is named, else a directory that goes with the demo."""

    chaos: bool = False
    seconds: float | None = None
    rounds: int | None = None
    calm: float = CALM_SECONDS
    seed: int = 0
    acts: tuple[str, ...] = ACTS
    rate: float = 3.0
    first_port: int = FIRST_PORT
    data: Path | None = None
    weights: str = "auto"
    end_with_parent: bool = False


def read(words: Sequence[str] | None = None) -> Settings:
    """Exits with a usage sentence (2) when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="A whole fleet on this machine, to look at.")
    parser.add_argument("--chaos", action="store_true", help="break things, one after the other, and mend them")
    parser.add_argument(
        "--seconds", type=float, help=f"end after so long (with --chaos {CHAOS_SECONDS:g}, else not at all)"
    )
    parser.add_argument(
        "--calm", type=float, default=CALM_SECONDS, help="with --chaos: so many seconds first in which all is well"
    )
    parser.add_argument("--rounds", type=int, help="with --chaos: end when all was broken and mended so often")
    parser.add_argument("--seed", type=int, default=0, help="decides the order in which things are broken")
    parser.add_argument("--acts", default="", metavar="A,B,…", help=f"only these: {', '.join(ACTS)}")
    parser.add_argument("--rate", type=float, default=3.0, help="requests a second")
    parser.add_argument(
        "--ports",
        dest="first_port",
        type=int,
        default=FIRST_PORT,
        metavar="FIRST",
        help=f"the first of {len(PORTS)} in a row (default {FIRST_PORT}); 0: any that are free",
    )
    parser.add_argument("--data", type=Path, help="keep databases and logs there (default: a directory that goes)")
    parser.add_argument(
        "--weights",
        default="auto",
        choices=("auto", "mooncake", "zmq"),
        help="what moves weights (default: what works)",
    )
    parser.add_argument("--end-with-parent", action="store_true", help="end, too, when whoever started it is gone")
    given = vars(parser.parse_args(words))
    if given["seconds"] is None and given["chaos"]:
        given["seconds"] = CHAOS_SECONDS
    acts = tuple(filter(None, given.pop("acts").split(",")))
    settings = Settings(**given, acts=acts or ACTS)
    if sentence := refuse(settings):
        parser.error(sentence)
    return settings


def refuse(settings: Settings) -> str | None:
    """Why these settings cannot be meant.

    >>> refuse(Settings(rate=0)), refuse(Settings(acts=("flood",)))
    ('--rate must be between 0.1 and 50 requests a second', '--acts: there is no flood')
    """
    if not 0.1 <= settings.rate <= 50:
        return "--rate must be between 0.1 and 50 requests a second"
    if settings.seconds is not None and not 1 <= settings.seconds <= 86_400:
        return "--seconds must be between 1 and 86400"
    if settings.rounds is not None and settings.rounds < 1:
        return "--rounds must be at least 1"
    if not 0 <= settings.calm <= 3600:
        return "--calm must be between 0 and 3600"
    if settings.first_port != 0 and not 1024 <= settings.first_port <= 65_535 - len(PORTS):
        return f"--ports must be 0, or between 1024 and {65_535 - len(PORTS)}"
    if strange := next((act for act in settings.acts if act not in ACTS), None):
        return f"--acts: there is no {strange[:40]}"
    return None
