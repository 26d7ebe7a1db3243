"""Who acts in a timeline: launches whose ranks really listen, decodes that poll, and one instance to do it to."""

import contextlib
import http.client
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zmq

from controlplane.domain.topology import Slot, Topology
from tests.support.ports import free_port, is_open
from tests.support.processes import Bootstrap

HOST = "127.0.0.1"
ALL = Slot(-1, -1, -1, -1)
# What takes a sweep or two takes longer on a busy machine; but less than the 12 s after which a flush ends by itself.
SOON = 10.0


def eventually(said: Callable[[], Any], *, within: float = SOON, what: str) -> Any:
    """The first true answer, or a failure that says what was waited for and what was last said."""
    end = time.monotonic() + within
    while True:
        last = said()
        if last:
            return last
        assert time.monotonic() < end, f"not within {within} s: {what}; last: {last!r}"
        time.sleep(0.03)


class Line:
    """One kept-alive connection to the wire of one instance."""

    def __init__(self, port: int, instance: str) -> None:
        self.instance = instance
        self._http = http.client.HTTPConnection(HOST, port, timeout=20)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        named = {"X-PD-Instance": self.instance, **headers}
        try:
            self._http.request(method, path, None if body is None else json.dumps(body), named)
            answer = self._http.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            self._http.close()
            raise

    def send(self, path: str) -> None:
        """Ask, and do not wait for the answer."""
        self._http.putrequest("GET", path)
        self._http.putheader("X-PD-Instance", self.instance)
        self._http.endheaders()

    def hears_nothing(self) -> bool:
        """The connection is closed without a word."""
        try:
            self._http.getresponse()
        except (OSError, http.client.HTTPException):
            return True
        return False

    def close(self) -> None:
        self._http.close()


class Place:
    """One instance of a bootstrap process, as its workers, its decodes and its operators see it."""

    def __init__(self, bootstrap: Bootstrap, name: str, data_dir: Path) -> None:
        self.bootstrap, self.name, self.data_dir = bootstrap, name, data_dir
        self._lines: list[Line] = []
        self.line = self.decode()

    def decode(self) -> Line:
        """A connection of its own, as every decode rank keeps one."""
        self._lines.append(Line(self.bootstrap.kv_port, self.name))
        return self._lines[-1]

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def look_up(self, slot: Slot = ALL) -> tuple[int, Any]:
        names = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
        query = "&".join(f"{name}={value}" for name, value in zip(names, slot, strict=True))
        status, text = self.line.ask("GET", f"/route?{query}")
        return status, json.loads(text) if status == 200 else text

    def addresses(self, topology: Topology) -> dict[Slot, int] | None:
        """Every slot's port as decodes hear it now; None while the answer is 503."""
        found = {}
        for slot in topology.slots():
            status, said = self.look_up(slot)
            if status != 200:
                return None
            found[slot] = said["rank_port"]
        return found

    @property
    def health(self) -> int:
        """What a decode would hear, read from the table: asking at the door would make us one more to wait for."""
        (since,) = self.sql("SELECT debt_since FROM controlplane_instance WHERE name = ?", self.name)[0]
        return 200 if since is None else 503

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        found = self.sql("SELECT kind, data FROM controlplane_event WHERE instance = ? ORDER BY revision", self.name)
        return [{"kind": kind, **json.loads(data)} for kind, data in found if not kinds or kind in kinds]

    def open_launches(self) -> dict[int, str]:
        sql = """SELECT l.number, l.state FROM controlplane_launch l JOIN controlplane_instance i ON i.id = l.instance_id
        WHERE i.name = ? AND l.ended_at IS NULL"""
        return dict(self.sql(sql, self.name))

    def sql(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        path = self.data_dir / "controlplane.sqlite3"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
            return database.execute(sql, values).fetchall()


class Cluster:
    """Sockets of ranks, as SGLang opens them; all of them end with the test."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._open: dict[int, zmq.Socket[bytes]] = {}

    def listen(self, port: int | None = None) -> int:
        """A rank at a port: a new one, or one that another rank had before."""
        port = port or free_port()
        end = time.monotonic() + 10
        while True:
            listener = self._context.socket(zmq.PULL)
            listener.setsockopt(zmq.LINGER, 0)
            try:
                listener.bind(f"tcp://{HOST}:{port}")
                break
            except zmq.ZMQError:
                # The port's last owner is still being closed by ZeroMQ's thread.
                listener.close()
                assert time.monotonic() < end, f"port {port} stays taken"
                time.sleep(0.01)
        self._open[port] = listener
        return port

    def kill(self, *ports: int) -> None:
        for port in ports:
            if port in self._open:
                self._open.pop(port).close()
        for port in ports:
            eventually(lambda port=port: not is_open(port), within=10, what=f"port {port} closed")

    def close(self) -> None:
        self._open.clear()
        self._context.destroy(linger=0)


class Launch:
    """One launch of an instance. Its ranks listen from the start, and register when told to."""

    def __init__(
        self,
        place: Place,
        cluster: Cluster | None,
        *,
        dp: int = 1,
        tp: int = 1,
        page_size: int = 64,
        token: str | None = None,
        ports: dict[Slot, int] | None = None,
        host: str = HOST,
    ) -> None:
        self.place, self.cluster, self.host = place, cluster, host
        self.topology, self.page_size, self.token = Topology(dp, 1, tp, 1), page_size, token
        old = ports or {}
        self.ports = {
            slot: cluster.listen(old.get(slot)) if cluster else old.get(slot) or free_port()
            for slot in self.topology.slots()
        }

    def put(self, *slots: Slot) -> list[tuple[int, str]]:
        """One PUT a slot, all slots by default; the answers."""
        return [self._put(slot) for slot in slots or self.ports]

    def register(self, *slots: Slot) -> None:
        """PUT as SGLang does: five tries, longer and longer apart."""
        for slot in slots or self.ports:
            for wait in (0.5, 1, 2, 4, 0):
                status, text = self._put(slot)
                if status == 200:
                    break
                time.sleep(wait)
            assert status == 200, text

    def _put(self, slot: Slot) -> tuple[int, str]:
        headers = {"X-PD-Generation": self.token} if self.token else {}
        return self.place.line.ask("PUT", "/route", self.body(slot), **headers)

    def body(self, slot: Slot) -> dict[str, Any]:
        return {
            "attn_tp_size": self.topology.tp, "attn_tp_rank": slot.tp, "attn_cp_size": 1, "attn_cp_rank": 0,
            "attn_dp_size": self.topology.dp, "attn_dp_rank": slot.dp, "pp_size": 1, "pp_rank": 0,
            "system_dp_size": 1, "system_dp_rank": 0, "rank_ip": self.host, "rank_port": self.ports[slot],
            "page_size": self.page_size, "kv_cache_dtype": "auto", "load_balance_method": "follow_bootstrap_room",
        }  # fmt: skip

    def die(self, *slots: Slot) -> None:
        assert self.cluster is not None
        self.cluster.kill(*(self.ports[slot] for slot in slots or self.ports))

    @property
    def serves(self) -> bool:
        """Whether decodes are sent to exactly these ranks, slot by slot."""
        return self.place.addresses(self.topology) == self.ports

    def is_served(self, within: float = SOON) -> None:
        eventually(lambda: self.serves, within=within, what=f"{self.topology} at {self.ports} served")


def tp(rank: int) -> Slot:
    return Slot(0, 0, rank, 0)


def dp(rank: int) -> Slot:
    return Slot(rank, 0, 0, 0)


@contextlib.contextmanager
def place_of(bootstrap: Bootstrap, name: str, data_dir: Path) -> Iterator[Place]:
    place = Place(bootstrap, name, data_dir)
    try:
        yield place
    finally:
        place.close()
