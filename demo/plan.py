"""What the fleet is: its instances, their processes and how each says that it is ready. Nothing is started here."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from controlplane.supervisor.children import Recipe

PREFILL, DECODES = "prefill-a", ("decode-a", "decode-b")
SEED, REPLICA, SECOND_REPLICA = "seed-a", "replica-a", "replica-b"
SPARE = "prefill-x"
"""Ranks without a model, of which one can be killed alone: an agent's ranks are threads of one process."""
GATEWAY, USER = "demo-gateway", "demo"
CONTROL_PLANE = "control-plane"

AGENTS = (PREFILL, *DECODES)
PORTS = ("web", "kv", "engine-info", *AGENTS)
ACTS = (
    "decode-killed",
    "prefill-restarted",
    "room-spoiled",
    "directory-killed",
    "rank-killed",
    "seed-died",
    "decode-drained",
    "decode-frozen",
    "prefill-killed",
)
DECODE_SIZES = {"decode-a": 2, "decode-b": 1}
MODEL = ("--layers", "8", "--hidden", "1024", "--tp", "2")
"""Of the weights: a sample of 17 MB."""
AGENT = re.compile(r"^(?:prefill|decode) ready (?P<url>\S+)")
SEEDING = re.compile(r"^seed ready (?P<name>\S+) ranks=(?P<ranks>\d+)")
KNOBS = re.compile(r"PDCP_|PD_|DATABASE_URL$|REDIS_URL$|SECRET_KEY|DEBUG$|LOG_|DJANGO_|ALLOWED_HOSTS$|CSRF_")
"""Variables of the shell that are about a control plane or a worker: the demo's must not meet those."""


class Plan:
    """`ports`: by the names in PORTS. `token`: the file with that of workers. `weights`: what moves them."""

    def __init__(self, *, base: Path, data: Path, ports: Mapping[str, int], token: Path, weights: str) -> None:
        self.base, self.data, self.ports, self.token, self.weights = base, data, ports, token, weights

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.ports['web']}"

    @property
    def kv(self) -> str:
        return f"127.0.0.1:{self.ports['kv']}"

    def url(self, agent: str) -> str:
        return f"http://127.0.0.1:{self.ports[agent]}"

    def env(self, given: Mapping[str, str]) -> dict[str, str]:
        """Of every process: that of the shell without its own knobs, and ours."""
        kept = {name: value for name, value in given.items() if not KNOBS.match(name)}
        return {
            **kept,
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(self.base),
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "PDCP_ENV_FILE": "/dev/null",
            "PDCP_DATA_DIR": str(self.data),
            "PDCP_WEB_PORT": str(self.ports["web"]),
            "PDCP_KV_PORT": str(self.ports["kv"]),
            "PDCP_ENGINE_INFO_PORT": str(self.ports["engine-info"]),
            "PDCP_SITE_NAME": "demo",
            # A process that hangs is found out within seconds: nobody watches a demo for minutes.
            "PDCP_HEALTH_TIMEOUT_SECONDS": "2",
            "OMP_NUM_THREADS": "1",
            # Mooncake takes any free port of the range in which ours lie, if it is let.
            "MC_MIN_PRC_PORT": given.get("MC_MIN_PRC_PORT", "61000"),
            "MC_MAX_PRC_PORT": given.get("MC_MAX_PRC_PORT", "64999"),
        }

    def instances(self) -> list[tuple[str, str, list[str]]]:
        """Name, role, and what `manage.py instances add` is told besides."""
        decodes = [(name, "decode", ["--observe", self.url(name)]) for name in DECODES]
        prefill = (PREFILL, "prefill", ["--engine-url", self.url(PREFILL)])
        return [prefill, *decodes, (SEED, "seed", []), (REPLICA, "seed", [])]

    def control_plane(self) -> Recipe:
        words = (sys.executable, str(self.base / "manage.py"), "up")
        return Recipe(CONTROL_PLANE, words, ready=re.compile("^PD control plane is ready"), grace_seconds=25.0)

    def prefill(self) -> Recipe:
        shape = ("--dp", "2", "--tp", "2", "--load-balance-method", "round_robin", "--kv", self.kv)
        return self._agent(PREFILL, "demo.spoiling", "prefill", *shape)

    def decode(self, name: str) -> Recipe:
        return self._agent(name, "workers.agent", "decode", "--tp", str(DECODE_SIZES[name]))

    def _agent(self, name: str, module: str, *words: str) -> Recipe:
        where = (
            "--port",
            str(self.ports[name]),
            "--api",
            self.web,
            "--instance",
            name,
            "--token-file",
            str(self.token),
        )
        return Recipe(
            name, (sys.executable, "-m", module, *words, *where, "--timeout", "10"), ready=AGENT, grace_seconds=10.0
        )

    def seed(self) -> Recipe:
        return self._weights(SEED, "seed")

    def replica(self, name: str, *seeds: str) -> Recipe:
        return self._weights(name, "pull", *(word for seed in seeds for word in ("--from", seed)))

    def _weights(self, name: str, *words: str) -> Recipe:
        at = ("--engine-info", f"127.0.0.1:{self.ports['engine-info']}", "--token-file", str(self.token))
        more = ("--instance", name, "--backend", self.weights, *MODEL)
        return Recipe(name, (sys.executable, "-m", "workers.weights", *words, *at, *more), ready=SEEDING)

    def spare(self, name: str, *which: str, token: str) -> Recipe:
        """Ranks of SPARE without a model."""
        words = (
            sys.executable,
            str(self.base / "manage.py"),
            "simulate",
            "--instance",
            SPARE,
            "--dp",
            "2",
            "--tp",
            "2",
        )
        shared = ("--page-size", "4", "--kv-cache-dtype", "float32", "--token", token)
        return Recipe(name, (*words, *shared, *which), ready=re.compile("ranks registered"))

    def processes(self) -> list[Recipe]:
        """All that run while nothing is broken, but the control plane."""
        decodes = [self.decode(name) for name in DECODES]
        return [self.prefill(), *decodes, self.seed(), self.replica(REPLICA, SEED)]
