"""Where the plugin takes hold of SGLang 0.5.23, and how it lets go where a version has no such place.

Methods are hooked, never classes: a replaced class misses the subclasses that exist already (srt/plugins/hook_registry.py).
"""

from __future__ import annotations

import logging
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .settings import Mode

log = logging.getLogger(__name__)

CONN = "sglang.srt.disaggregation.common.conn"
DECODE = "sglang.srt.disaggregation.decode"
WEIGHTS = "sglang.srt.model_executor.model_runner_components.remote_instance_weight_transporter"
ENGINE = "sglang.srt.entrypoints.engine"
SCHEDULER = (DECODE, "sglang.srt.managers.scheduler")
BOTH = frozenset(Mode)


@dataclass(frozen=True, slots=True)
class Hook:
    """`kind` is a name of SGLang's HookType, `does` a method of the plugin, `without` what is missing if it is.

    Where it has effect: in schedulers, and whoever has loaded its module; `anywhere`; or in the latter alone (`if_loaded`).
    """

    target: str
    kind: str
    does: str
    without: str
    modes: frozenset[Mode] = BOTH
    anywhere: bool = False
    if_loaded: bool = False

    @property
    def module(self) -> str:
        return next(name for name in (CONN, DECODE, WEIGHTS, ENGINE) if self.target.startswith(f"{name}."))


ROOMS = "rooms are not told of from here"
HOOKS = (
    Hook(f"{CONN}.CommonKVManager._register_topology_row", "AROUND", "registered", "ranks are not registered"),
    Hook(
        f"{CONN}.CommonKVBootstrapServer.run",
        "REPLACE",
        "no_server",
        "the engine keeps its own bootstrap server",
        modes=frozenset({Mode.AUTHORITY}),
        anywhere=True,
    ),
    Hook(
        f"{CONN}.CommonKVSender._register_prefill_dp_rank",
        "AROUND",
        "bound",
        "binding a room waits for the directory",
        modes=frozenset({Mode.AUTHORITY}),
    ),
    Hook(f"{CONN}.CommonKVSender.__init__", "AFTER", "sender_opened", ROOMS),
    Hook(f"{CONN}.CommonKVSender.init", "AFTER", "sender_bootstrapped", ROOMS),
    Hook(f"{CONN}.CommonKVSender.failure_exception", "AROUND", "sender_failed", ROOMS),
    Hook(f"{CONN}.CommonKVReceiver.init", "AFTER", "receiver_resolved", ROOMS),
    Hook(f"{CONN}.CommonKVReceiver.failure_exception", "AROUND", "receiver_failed", ROOMS),
    Hook(f"{DECODE}.DecodeTransferQueue._commit_transfer_to_req", "AROUND", "committed", ROOMS),
    Hook(
        f"{WEIGHTS}.RemoteInstanceWeightTransporter._register_to_engine_info_bootstrap",
        "AROUND",
        "weights",
        "weights are not published",
    ),
    Hook(
        f"{ENGINE}.Engine._launch_subprocesses",
        "BEFORE",
        "launching",
        "engines started one after another in one process need PD_LAUNCH_TOKEN",
        if_loaded=True,
    ),
)


def wanted(mode: Mode, loaded: Iterable[str]) -> list[Hook]:
    """Those that can have an effect in this process: importing half of an engine to hook it would cost every other process."""
    there = set(loaded)
    schedules = not there.isdisjoint(SCHEDULER)
    return [
        hook
        for hook in HOOKS
        if mode in hook.modes
        and (hook.anywhere or (hook.module in there if hook.if_loaded else schedules or hook.module in there))
    ]


def install(mode: Mode, handlers: Mapping[str, Callable[..., Any]]) -> list[str]:
    """Register what is wanted here with SGLang, which applies it afterwards; -> the targets that it has.

    What it has not is said, once a process, and left out.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    found, missing = [], []
    for hook in wanted(mode, tuple(sys.modules)):
        try:
            callable_there = callable(pkgutil.resolve_name(hook.target))
        except (ImportError, AttributeError, ValueError):
            callable_there = False
        if not callable_there:
            missing.append(hook)
            continue
        HookRegistry.register(hook.target, handlers[hook.does], HookType[hook.kind])
        found.append(hook.target)
    for hook in missing:
        log.warning("this SGLang has no %s: %s", hook.target, hook.without)
    return found
