"""The processes of a control plane on one host, and the order in which they stop."""

import re
import sys
from pathlib import Path

from controlplane.supervisor.children import Recipe

# Doors to people first, then the clock, then the directory, and last what they all speak through.
STOP_ORDER = ["web", "celery", "bootstrap", "redis"]

# Without the talk among workers, of which there is one here: it costs a second at the start. Without Django's checks, which
# `up` and the web process make already: they would import every page and the whole API, 35 MB and half a second.
CELERY = "celery --skip-checks -A controlplane -q worker -P threads -c 8 -B --without-gossip --without-mingle"


def recipes(*, base_dir: Path, log_level: str, stop_delay_seconds: float = 0.0) -> list[Recipe]:
    python, manage = sys.executable, str(base_dir / "manage.py")
    bootstrap = Recipe(
        "bootstrap",
        (python, manage, "bootstrap"),
        ready=re.compile(r"^bootstrap ready kv=(?P<kv>\S+) engine=(?P<engine>\S+)"),
        standing_by=re.compile(r"^bootstrap standing by"),
        # Workers wait for it: at once, and slower only if it keeps dying.
        restart_delays=(0.0, 0.2, 0.5, 1.0, 2.0),
        delay_seconds=stop_delay_seconds,
    )
    web = Recipe(
        "web",
        (python, manage, "web"),
        ready=re.compile(r"^web ready (?P<url>\S+)"),
        grace_seconds=7.0,
        delay_seconds=stop_delay_seconds,
    )
    celery = Recipe(
        "celery",
        # One process with threads: tasks wait on sockets and databases, they do not compute.
        (python, "-m", *f"{CELERY} -l {log_level}".split()),
        ready=re.compile(r"^celery ready"),
    )
    return [bootstrap, web, celery]
