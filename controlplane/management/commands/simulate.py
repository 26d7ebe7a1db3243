"""`manage.py simulate`: run the ranks of a prefill instance that has no model."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from controlplane.domain.addresses import bracketed, canonical_host
from controlplane.domain.errors import Refused
from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation import console
from controlplane.simulation.instance import Instance, Plan
from controlplane.simulation.listener import Doors, Nobody
from controlplane.simulation.report import Reporter
from controlplane.simulation.rooms import bind_rooms
from controlplane.simulation.shape import Selector, Shape, chosen
from controlplane.simulation.wire import Wire

READY, NOT_READY, USAGE, UNREACHABLE = 0, 1, 2, 3

EPILOG = """exit codes: 0 ready (or stopped by you), 1 registered but not ready, 2 wrong usage,
3 the control plane could not be reached. While it runs on a terminal, type: """


class Command(BaseCommand):
    help = "Ranks that really listen, greet and register, as a prefill instance of SGLang does, without a model."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = EPILOG + console.HELP
        sizes = parser.add_argument_group("sizes")
        for option, meaning in (
            ("--dp", "attention DP ranks"),
            ("--cp", "attention CP ranks"),
            ("--tp", "attention TP ranks"),
            ("--pp", "pipeline stages"),
            ("--system-dp", "separate engines behind one instance"),
        ):
            sizes.add_argument(option, type=int, default=1, metavar="N", help=f"{meaning} (default 1)")
        facts = parser.add_argument_group("shared facts")
        facts.add_argument("--page-size", type=int, default=64, metavar="N")
        facts.add_argument("--kv-cache-dtype", default="auto", metavar="NAME")
        facts.add_argument("--load-balance-method", default="follow_bootstrap_room", metavar="NAME")
        where = parser.add_argument_group("where")
        kv_url = f"http://{_reachable(settings.PDCP_BOOTSTRAP_HOST)}:{settings.PDCP_KV_PORT}"
        engine_url = f"http://{_reachable(settings.PDCP_BOOTSTRAP_HOST)}:{settings.PDCP_ENGINE_INFO_PORT}"
        where.add_argument("--url", default=kv_url, help=f"KV bootstrap (default {kv_url})")
        where.add_argument("--engine-url", default=engine_url, help=f"engine info (default {engine_url})")
        where.add_argument("--instance", metavar="NAME", help="which instance, sent as the path prefix /i/NAME")
        where.add_argument("--host", default="127.0.0.1", help="where ranks listen, and what they register")
        where.add_argument("--http-port", type=int, default=30_000, metavar="PORT", help="the engine's HTTP port")
        who = parser.add_argument_group("which ranks")
        for option, meaning in (("--only", "start only these"), ("--skip", "leave these out")):
            who.add_argument(
                option,
                action="append",
                default=[],
                metavar="dp1,tp3",
                help=f"{meaning}; all named axes must match; may be given several times",
            )
        who.add_argument("--no-listen", action="store_true", help="register addresses with nobody behind them")
        who.add_argument("--token", help="launch token, sent as X-PD-Generation")
        load = parser.add_argument_group("beside registrations")
        load.add_argument("--weights", type=int, default=0, metavar="N", help="engine info with N tensors a rank")
        load.add_argument("--rooms-per-second", type=float, default=0, metavar="N", help="bind random rooms")
        parser.add_argument("--once", action="store_true", help="register, wait until ready, exit")
        parser.add_argument("--wait", type=float, default=30, metavar="SECONDS", help="how long for (default 30)")
        parser.add_argument("--json", action="store_true", help="one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            plan, slots = _planned(options)
            code = asyncio.run(_run(plan, slots, options, self.stdout._out))
        except Refused as refusal:
            print(f"error: {refusal.sentence}", file=sys.stderr)
            code = USAGE
        sys.exit(code)


def _planned(options: dict[str, Any]) -> tuple[Plan, list[Slot]]:
    shape = Shape(**{axis: options[axis] for axis in ("dp", "cp", "tp", "pp", "system_dp")})
    facts = SharedFacts(
        page_size=options["page_size"],
        kv_cache_dtype=options["kv_cache_dtype"],
        load_balance_method=options["load_balance_method"],
    )
    if options["weights"] < 0 or options["rooms_per_second"] < 0 or options["wait"] < 0:
        raise Refused("--weights, --rooms-per-second and --wait cannot be negative")
    slots = chosen(
        shape.topology,
        only=[Selector.parse(text) for text in options["only"]],
        skip=[Selector.parse(text) for text in options["skip"]],
    )
    plan = Plan(
        shape=shape,
        facts=facts,
        host=canonical_host(options["host"]),
        http_port=options["http_port"],
        token=options["token"],
        tensors=options["weights"],
    )
    return plan, slots


async def _run(plan: Plan, slots: list[Slot], options: dict[str, Any], out: Any) -> int:
    prefix = f"/i/{options['instance']}" if options["instance"] else ""
    reporter = Reporter(as_json=options["json"], ranks=len(slots), out=out)
    wire = Wire(options["url"].rstrip("/") + prefix, options["engine_url"].rstrip("/") + prefix)
    doors = Doors(plan.host)
    open_listener = (lambda: Nobody(plan.host)) if options["no_listen"] else doors.open
    instance = Instance(plan, slots, wire=wire, open_listener=open_listener, reporter=reporter)
    life = asyncio.create_task(_live(instance, wire, reporter, options))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, life.cancel)
    try:
        return await life
    except asyncio.CancelledError:
        reporter.tell("stopped", "stopped; the ranks are gone and the directory was not told")
        return READY
    finally:
        instance.close()
        doors.close()
        await wire.close()


async def _live(instance: Instance, wire: Wire, reporter: Reporter, options: dict[str, Any]) -> int:
    await instance.start()
    if all(rank.heard is None or rank.heard.status is None for rank in instance.ranks):
        reporter.tell("unreachable", f"nothing answers at {wire.kv}: {instance.ranks[0].heard}")
        if options["once"]:
            return UNREACHABLE
    answer = await instance.wait_ready(within=options["wait"] if options["once"] else min(options["wait"], 3))
    if options["once"]:
        return READY if answer.ok else NOT_READY
    beside = None
    if options["rooms_per_second"]:
        dp_size, rate = instance.plan.shape.topology.dp, options["rooms_per_second"]
        beside = asyncio.create_task(bind_rooms(wire, per_second=rate, dp_size=dp_size, reporter=reporter))
    try:
        if console.has_terminal():
            await console.obey(instance, reporter)
        else:
            await asyncio.Event().wait()
    finally:
        if beside:
            beside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beside
    reporter.tell("stopped", "stopped; the ranks are gone and the directory was not told")
    return READY


def _reachable(host: str) -> str:
    """A wildcard is an address to listen on, not one to call."""
    return bracketed({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))
