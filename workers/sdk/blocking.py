"""The same client for code without an event loop: one thread of its own runs it, so that no caller can stop its heartbeats."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from .client import AsyncClient
from .engine_info import Patience, Tensor, Weights
from .errors import Closed
from .keeper import Keeper, OnChange
from .keeping import Standing
from .minting import Mint
from .places import Place
from .ranks import Rank
from .resolved import Question, Resolved
from .resolver import ASK_SECONDS
from .rooms import QUERY_SECONDS
from .servers import ControlPlane

Result = TypeVar("Result")

START_SECONDS = 10.0
SLACK_SECONDS = 5.0


class Registered:
    """The ranks that a `Client` keeps registered."""

    def __init__(self, client: Client, keeper: Keeper) -> None:
        self._client, self._keeper = client, keeper

    @property
    def standing(self) -> Standing:
        return self._keeper.standing

    def wait(self, *, within: float) -> Standing:
        """Until all ranks are acknowledged. Raises TimedOut; it is tried on."""
        return self._client._run(self._keeper.registered(within=within), within)

    def release(self) -> None:
        """Keep them no longer; see `AsyncClient.release`."""
        self._client._run(self._client._client.release(self._keeper), SLACK_SECONDS)


class Client:
    """`AsyncClient` on a daemon thread: same calls, same errors, same bounds. Any number of threads may use it.

    It does not survive a fork: a child makes its own (the token of the launch is inherited all the same). `on_change` is
    called on the client's thread, and must be quick.
    """

    def __init__(self, control_plane: ControlPlane, **options: Any) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pd-sdk", daemon=True)
        self._thread.start()
        self._closed = False

        async def make() -> AsyncClient:
            return AsyncClient(control_plane, **options)

        try:
            self._client = self._run(make(), START_SECONDS)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def mint(self) -> Mint:
        return self._client.mint

    def close(self, *, within: float | None = None) -> None:
        """Stop what runs, send the last reports, close every connection. Twice is once. `within`: whoever is in a hurry
        gives up what is not done after so many seconds."""
        if self._closed or os.getpid() != self._pid:
            return
        if within is not None:
            last = asyncio.run_coroutine_threadsafe(self._client.aclose(within=0.7 * within), self._loop)
            with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                last.result(within)
            self._stop(within)
            return
        try:
            self._run(self._client.aclose(), 2 * SLACK_SECONDS)
        finally:
            self._stop()

    def register(
        self,
        ranks: Sequence[Rank],
        *,
        lease_seconds: float = 15.0,
        on_change: OnChange | None = None,
        token: str | None = None,
        worker: str | None = None,
    ) -> Registered:
        """Comes back at once; see `AsyncClient.register`."""
        work = self._client.register(
            ranks, lease_seconds=lease_seconds, on_change=on_change, token=token, worker=worker
        )
        return Registered(self, self._run(work, START_SECONDS))

    def bind(self, room: int, rank: Rank | int, *, within: float = QUERY_SECONDS) -> None:
        self._run(self._client.bind(room, rank, within=within), within)

    def resolve(
        self,
        question: Question,
        *,
        place: Place | None = None,
        instance: str | None = None,
        within: float = ASK_SECONDS,
    ) -> Resolved:
        return self._run(self._client.resolve(question, place=place, instance=instance, within=within), within)

    def until_ready(
        self, question: Question, *, place: Place | None = None, instance: str | None = None, within: float
    ) -> Resolved:
        return self._run(self._client.until_ready(question, place=place, instance=instance, within=within), within)

    def invalidate(self, failed: Resolved) -> bool:
        async def on_its_thread() -> bool:
            return self._client.invalidate(failed)

        return self._run(on_its_thread(), SLACK_SECONDS)

    def find_rooms(
        self,
        rooms: Iterable[int],
        *,
        place: Place | None = None,
        instance: str | None = None,
        within: float = QUERY_SECONDS,
    ) -> dict[int, int]:
        return self._run(self._client.find_rooms(rooms, place=place, instance=instance, within=within), within)

    def dp_of(
        self, room: int, prefill: Resolved, *, recorded_first: bool = False, within: float = QUERY_SECONDS
    ) -> int:
        return self._run(self._client.dp_of(room, prefill, recorded_first=recorded_first, within=within), within)

    def publish_weights(
        self,
        rank: int,
        session_id: str,
        weights: Mapping[str, Tensor],
        *,
        tp_rank: int | None = None,
        within: float = 60.0,
    ) -> None:
        work = self._client.engine_info.publish(rank, session_id, weights, tp_rank=tp_rank, within=within)
        self._run(work, within)

    def fetch_weights(
        self,
        rank: int,
        *,
        sources: Sequence[Place] | None = None,
        patience: Patience = Patience(),  # noqa: B008
    ) -> Weights:
        return self._run(self._client.engine_info.fetch(rank, sources=sources, patience=patience), patience.total)

    def note(
        self,
        room: int,
        instance: str,
        rung: str,
        result: str = "passed",
        *,
        detail: str = "",
        took: float | None = None,
    ) -> None:
        """Evidence about a room, queued; dropped where the control plane has no API. `took`: seconds since its rung before."""
        if self._client.reports is not None:
            token = self._client.token
            self._client.reports.note(room, instance, rung, result, detail=detail, launch_token=token, took=took)

    def count_open(self, instance: str, count: Callable[[], Mapping[int, int]]) -> None:
        """From now on tell how many rooms are open here, by DP rank; `count` is called on the client's thread."""
        if self._client.reports is not None:
            self._client.reports.count_open(instance, count, launch_token=self._client.token)

    def _run(self, work: Coroutine[Any, Any, Result], within: float) -> Result:
        """The result, on the caller's thread. The work keeps its own bound; this one is for a thread that is stuck."""
        why_not = ""
        if os.getpid() != self._pid:
            why_not = "this client belongs to the process that this one was forked from; make another one here"
        elif self._closed:
            why_not = "this client was closed; make another one"
        elif threading.current_thread() is self._thread:
            why_not = "a listener of the client may not wait for the client: it runs on the client's own thread"
        if why_not:
            work.close()
            raise Closed(why_not)
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result(within + SLACK_SECONDS)
        except concurrent.futures.CancelledError:
            raise Closed("this client was closed while it was asked") from None
        except BaseException:
            waiting.cancel()
            raise

    def _stop(self, within: float = SLACK_SECONDS) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(within)
        if not self._thread.is_alive():
            self._loop.close()
