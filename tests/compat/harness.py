"""Builds the real SGLang managers, receivers and servers on a CPU.

Nothing of SGLang is re-implemented: everything goes through the real constructors. Only what a GPU launch
would publish (ranks, ServerArgs) is supplied, through SGLang's own hooks `override_server_args` and
`get_parallel().override`.
"""

import os

os.environ.setdefault("SGLANG_HOST_IP", "127.0.0.1")  # ranks advertise and bind the loopback address

import tests.compat.sgl_cpu  # noqa: F401  isort: skip  (before anything of SGLang)
import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import requests
import zmq
from sglang.srt.disaggregation.base.conn import KVArgs
from sglang.srt.disaggregation.common import conn
from sglang.srt.disaggregation.common.conn import CommonKVManager, CommonKVReceiver
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.entrypoints.engine_info_bootstrap_server import EngineInfoBootstrapServer
from sglang.srt.runtime_context import get_context, get_parallel

SESSION = b"compat-session"
# A manager that is collected while its ZeroMQ context has sockets hangs its process: keep them to the end.
_kept: list[CommonKVManager] = []
Slot = tuple[int, int, int, int]  # dp, cp, tp, pp


class Manager(CommonKVManager):
    """CommonKVManager leaves only the transport's two messages open; this is the first of them."""

    def build_receiver_registration_message(self) -> list[bytes]:
        return [b"None", self.local_ip.encode(), str(self.rank_port).encode(), SESSION]


class NamedManager(Manager):
    """A rank that registers under its instance's path prefix, as our plugin makes it do."""

    instance = ""

    def _register_topology_row(self, url: str, payload: dict[str, Any]) -> None:
        base, _, path = url.rpartition("/")
        super()._register_topology_row(f"{base}/i/{self.instance}/{path}", payload)


class PPGroup:
    """A pipeline group inside one process: the first rank's object is handed to the later ones."""

    _said: dict[Any, Any] = {}

    def __init__(self, rank: int, key: Any) -> None:
        self.rank_in_group, self.key = rank, key

    def broadcast_object(self, obj: Any = None, src: int = 0) -> Any:
        if self.rank_in_group == src:
            PPGroup._said[self.key] = obj
        return PPGroup._said[self.key]


@dataclass(frozen=True)
class Shape:
    """The sizes of a prefill instance; `system_dp` above 1 means whole replicas instead of DP attention."""

    dp: int = 1
    cp: int = 1
    tp: int = 1
    pp: int = 1
    system_dp: int = 1

    @property
    def groups(self) -> int:
        return self.system_dp if self.system_dp > 1 else self.dp

    @property
    def slots(self) -> list[Slot]:
        return list(itertools.product(range(self.groups), range(self.cp), range(self.tp), range(self.pp)))


@dataclass
class Prefill:
    """The ranks of one prefill launch that registered so far."""

    shape: Shape
    port: int
    # None: the ranks are unmodified, and name no instance.
    instance: str | None = None
    ranks: dict[Slot, CommonKVManager] = field(default_factory=dict)

    def register(self, slot: Slot, **facts: Any) -> CommonKVManager:
        """Build one real rank: its constructor calls the real register_to_bootstrap()."""
        dp, cp, tp, pp = slot
        whole = self.shape.system_dp > 1
        attention_dp, system_dp = (0, dp) if whole else (dp, 0)
        with (
            published(disaggregation_bootstrap_port=self.port, dp_size=self.shape.system_dp) as server_args,
            _parallel(self.shape, cp=cp, tp=tp, dp=attention_dp, pp=pp, key=(self.port, dp, cp, tp)),
        ):
            args = _kv_args(engine_rank=tp, system_dp_rank=system_dp, pp_rank=pp, **facts)
            kind = type("Named", (NamedManager,), {"instance": self.instance}) if self.instance else Manager
            rank = kind(args, DisaggregationMode.PREFILL, server_args)
        _kept.append(rank)
        self.ranks[slot] = rank
        return rank

    def register_all(self, **facts: Any) -> "Prefill":
        for slot in self.shape.slots:
            self.register(slot, **facts)
        return self

    def die(self) -> None:
        """Close every PULL socket: the ports refuse from now on."""
        for rank in self.ranks.values():
            rank.server_socket.close(linger=0)

    def frames(self, slot: Slot) -> list[list[bytes]]:
        """What really arrived on a rank's PULL socket so far."""
        socket = self.ranks[slot].server_socket
        arrived: list[list[bytes]] = []
        while socket.poll(1000 if not arrived else 200):
            arrived.append(socket.recv_multipart(zmq.NOBLOCK))
        return arrived


def decode_rank(
    *, tp: int = 1, rank: int = 0, is_mla: bool = False, is_hybrid: bool = False, **facts: Any
) -> CommonKVManager:
    """One real decode rank of an engine of `tp` ranks."""
    with published() as server_args, _parallel(Shape(tp=tp), cp=0, tp=rank, dp=0, pp=0, key=None):
        args = _kv_args(engine_rank=rank, **facts)
        args.is_hybrid_mla_backend = is_hybrid
        manager = Manager(args, DisaggregationMode.DECODE, server_args, is_mla)
    _kept.append(manager)
    return manager


def receive(decode: CommonKVManager, address: str, room: int, dp: int = 0) -> CommonKVReceiver:
    """A request's receiver, set up: topology, slot look-ups, and its registration sent over ZeroMQ."""
    with published():
        receiver = CommonKVReceiver(decode, address, room)
        receiver.init(dp)
    return receiver


def look_up(address: str, slot: Slot) -> dict[str, Any] | None:
    """The real slot look-up, for any slot, whoever's target it is."""
    dp, cp, tp, pp = slot
    asker = _Asker(address)
    return CommonKVReceiver._get_bootstrap_info_from_server(asker, dp, cp, tp, pp)


@dataclass
class _Asker:
    bootstrap_addr: str


def let_go() -> None:
    """End every manager built so far, with its sockets and threads."""
    CommonKVReceiver.close_all_sockets()
    while _kept:
        manager = _kept.pop()
        if manager.disaggregation_mode == DisaggregationMode.DECODE:
            manager._heartbeat_shutdown.set()
        manager._zmq_ctx.destroy(linger=0)


def published(**fields: Any) -> contextlib.AbstractContextManager[Any]:
    """A real (dummy-model) ServerArgs in SGLang's process context."""
    defaults = {"host": "127.0.0.1", "port": 30000, "load_balance_method": "follow_bootstrap_room"}
    return get_context().override_server_args(**{**defaults, **fields})


def is_ready(decode: CommonKVManager, address: str, *, within: float = 10) -> bool:
    """Whether the decode has the topology, if need be after the probe round that completes a launch."""
    return wait_until(lambda: decode.try_ensure_parallel_info(address), within=within) is not None


def wait_until(true: Callable[[], Any], *, within: float, every: float = 0.01) -> float | None:
    """Seconds until `true()`, or None when that did not happen in time."""
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > within:
            return None
        time.sleep(every)
    return time.monotonic() - begun


class RealServers:
    """SGLang's own two bootstrap servers, in this process."""

    def __init__(self, kv_port: int, engine_port: int) -> None:
        self.kv = conn.CommonKVBootstrapServer("127.0.0.1", kv_port)
        self.engine = EngineInfoBootstrapServer("127.0.0.1", engine_port)
        for port in (kv_port, engine_port):
            answers = wait_until(partial(_is_healthy, port), within=40)
            assert answers is not None, f"SGLang's own server does not answer on {port}"

    def close(self) -> None:
        self.kv.close()
        self.engine.close()


def _is_healthy(port: int) -> bool:
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
    return False


def _parallel(shape: Shape, *, cp: int, tp: int, dp: int, pp: int, key: Any) -> Any:
    world = shape.tp * shape.cp * shape.dp
    return get_parallel().override(
        tp_size=world,
        launch_world_size=world * shape.pp,
        moe_tp_size=world,
        moe_ep_size=1,
        moe_dp_size=1,
        attn_tp_size=shape.tp,
        attn_tp_rank=tp,
        attn_cp_size=shape.cp,
        attn_cp_rank=cp,
        attn_dp_size=shape.dp,
        attn_dp_rank=dp,
        pp_size=shape.pp,
        attn_dcp_size=1,
        attn_dcp_rank=0,
        pp_group=PPGroup(pp, key),
    )


def _kv_args(
    *, engine_rank: int, page_size: int = 64, dtype: str = "auto", system_dp_rank: int = 0, pp_rank: int = 0
) -> KVArgs:
    args = KVArgs()
    for kind, facts in {
        "kv": ("data_ptrs", "data_lens", "item_lens", "layer_ids"),
        "aux": ("data_ptrs", "data_lens", "item_lens"),
        "state": ("types", "data_ptrs", "data_lens", "item_lens", "layer_ids"),
    }.items():
        for fact in facts:
            setattr(args, f"{kind}_{fact}", [])
    args.engine_rank, args.page_size, args.kv_cache_dtype_str = engine_rank, page_size, dtype
    args.system_dp_rank, args.pp_rank, args.rust_http_port = system_dp_rank, pp_rank, None
    return args
