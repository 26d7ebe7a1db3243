"""The plugin in one process of an engine: what its hooks hand over, and what becomes of it on a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workers.sdk import Client, ControlPlane, WorkerError

from . import launch
from .background import Background
from .context import http_port, nodes, world_rank
from .hooks import install
from .rooms import OpenRooms, Rooms, is_leader
from .rows import Rows, has_listener, is_first, is_of, own_name, read_rank, size_of
from .settings import BadSettings, Mode, Settings, read
from .weights import publish_for_ever

log = logging.getLogger(__name__)

MOST_BINDINGS = 64
"""Rooms that are being bound beside at once; past that the caller waits, as it does in SGLang."""

running: Plugin | None = None
"""Of this process."""


def start() -> None:
    """Read the environment, mint the token of the launch, take hold of SGLang. Raises nothing."""
    global running
    if running is not None:
        return
    try:
        settings = read(os.environ)
        launch.prepare()
        running = Plugin(settings)
        install(settings.mode, running.handlers())
        log.info("control plane %s, mode %s", settings.plane.kv, settings.mode)
    except BadSettings as problem:
        log.error("the control plane's plugin does nothing: %s", problem)
    except Exception:
        log.exception("the control plane's plugin does nothing")


class Plugin:
    """Each handler is called by SGLang, on a thread of its own; it hands over, and never waits or raises."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._name = settings.instance
        self.background = Background(self._client)
        self.rows = Rows(lease_seconds=settings.lease_seconds)
        self.rooms = Rooms(self._note, lambda: self._name, share=settings.share)
        self._binding = threading.BoundedSemaphore(MOST_BINDINGS)
        self.open_rooms = OpenRooms()
        self._launches = 0

    def handlers(self) -> dict[str, Callable[..., Any]]:
        rooms = self.rooms
        return {
            "registered": self._registered,
            "no_server": self._no_server,
            "bound": self._bound,
            "weights": self._weights,
            "launching": self._after(self._launching),
            "sender_opened": self._after(rooms.opened),
            "sender_bootstrapped": self._after(rooms.bootstrapped),
            "sender_failed": self._before(rooms.sender_failed),
            "receiver_resolved": self._after(self._resolved),
            "receiver_failed": self._before(rooms.receiver_failed),
            "committed": rooms.committed,
        }

    # Registration.

    def _registered(self, original: Callable[..., Any], manager: Any, *args: Any, **named: Any) -> Any:
        """Around `_register_topology_row(self, url, payload)`, on the thread that builds the rank."""
        try:
            payload = named["payload"] if "payload" in named else args[1]
            if is_of(manager, payload):
                self._hand_over(manager, payload)
        except WorkerError as problem:
            self.background.say(f"this rank is not registered at the control plane: {problem.sentence}")
        except Exception:
            log.exception("this rank is not registered at the control plane")
        return None if self.settings.mode is Mode.AUTHORITY else original(manager, *args, **named)

    def _hand_over(self, manager: Any, payload: Any) -> None:
        rank, node_count = read_rank(payload), nodes()
        if node_count > 1 and self.settings.instance is None:
            raise WorkerError("PD_INSTANCE must be set, to the same name on all nodes of an engine that has several")
        token = launch.token_for(nodes=node_count, ranks=size_of(rank))
        if not token:
            self.background.say(
                f"{rank.slot} goes without a token of its launch: set PD_LAUNCH_TOKEN to one value for all processes of a"
                " start, anew for each start; until then the control plane infers which launch a rank is of"
            )
        # Listeners of the Rust server have ports of their own, and are one engine.
        self._call_it(None if has_listener(manager) else rank.prefill_http_port)
        self.background.do(lambda client: self.rows.keep(client, id(manager), rank, token), "registering a rank")
        self._until_torn_down(manager)
        if is_first(rank):
            self._count(manager)

    def _no_server(self, server: Any, *args: Any, **named: Any) -> None:
        """For `CommonKVBootstrapServer.run`: the object stays, and its owner will close it."""
        server._loop = None
        log.info("no bootstrap server is started here: ranks register at %s", self.settings.plane.kv)

    def _until_torn_down(self, manager: Any) -> None:
        """A change of roles closes the manager and its port: from then on the rank is kept no longer."""
        teardown = getattr(manager, "teardown", None)
        if teardown is None or getattr(teardown, "_pd_plugin", False):
            return

        def torn_down(*args: Any, **named: Any) -> Any:
            self.open_rooms.remove(manager)
            self.background.do(lambda _: self.rows.release(id(manager)), "letting a rank go")
            return teardown(*args, **named)

        torn_down._pd_plugin = True  # type: ignore[attr-defined]
        manager.teardown = torn_down

    def _launching(self, *args: Any, **named: Any) -> None:
        """Before the processes of an engine are started. The token that this process was started with is of another engine."""
        self._launches += 1
        if self._launches > 1 or launch.minted_by() != os.getpid():
            launch.renew()

    # Rooms.

    def _bound(self, original: Callable[..., Any], sender: Any, *args: Any, **named: Any) -> None:
        """Around `_register_prefill_dp_rank`, which waits up to 5 s for a directory that is now on another host. Decodes ask
        until they are told, so it is done beside."""
        if not self._binding.acquire(blocking=False):
            original(sender, *args, **named)
            return

        def work() -> None:
            try:
                original(sender, *args, **named)
            finally:
                self._binding.release()

        try:
            threading.Thread(target=work, name="pd-plugin-bind", daemon=True).start()
        except RuntimeError:
            # No thread to be had.
            work()

    def _resolved(self, result: Any, receiver: Any, *args: Any, **named: Any) -> None:
        if is_leader(receiver.kv_mgr):
            self._count(receiver.kv_mgr)
        self.rooms.resolved(result, receiver)

    def _count(self, manager: Any) -> None:
        """From now on tell how many rooms it has open: that is what a drain waits for."""
        self._call_it(None)
        self._until_torn_down(manager)
        name = self._name
        if self.open_rooms.add(manager) and name is not None:
            self.background.do(lambda client: client.count_open(name, self.open_rooms), "counting open rooms")

    def _note(self, room: int, instance: str, rung: str, result: str, *, detail: str = "") -> None:
        client = self.background.client
        if client is not None:
            client.note(room, instance, rung, result, detail=detail)
        elif self.settings.plane.api is not None:
            self.background.do(lambda made: made.note(room, instance, rung, result, detail=detail), "noting a room")

    # Weights.

    def _weights(self, original: Callable[..., Any], transporter: Any, *args: Any, **named: Any) -> Any:
        """Around `_register_to_engine_info_bootstrap`. In both modes the engine's own server is told, since loaders ask it."""
        try:
            if transporter.weight_info is not None:
                self._call_it(None)
                tp_rank = int(transporter.tp_rank)
                told = (world_rank(tp_rank), tp_rank, transporter.session_id, transporter.weight_info)

                def publish(client: Client) -> None:
                    publish_for_ever(client, *told)

                self.background.do(publish, "publishing weights")
        except Exception:
            log.exception("the weights of this rank are not published at the control plane")
        return original(transporter, *args, **named)

    # What all of them use.

    def _client(self) -> Client:
        plane: ControlPlane = replace(self.settings.plane, instance=self._name)
        return Client(plane, watch=False)

    def _call_it(self, port: Any) -> None:
        if self._name is None:
            self._name = own_name(port or http_port())
            log.info("this engine is called %s at the control plane (PD_INSTANCE gives it another name)", self._name)

    def _after(self, handler: Callable[..., None]) -> Callable[..., None]:
        def hook(*args: Any, **named: Any) -> None:
            try:
                handler(*args, **named)
            except Exception:
                self._unexpected(handler)

        return hook

    def _before(self, handler: Callable[[Any], None]) -> Callable[..., Any]:
        def hook(original: Callable[..., Any], subject: Any, *args: Any, **named: Any) -> Any:
            try:
                handler(subject)
            except Exception:
                self._unexpected(handler)
            return original(subject, *args, **named)

        return hook

    def _unexpected(self, handler: Callable[..., Any]) -> None:
        name = getattr(handler, "__name__", "a hook")
        log.debug("%s failed", name, exc_info=True)
        self.background.say(f"the plugin cannot read this SGLang in {name}: what it would have told is missing")
