"""The prefill agent: computes the KV of a prompt on every rank of a DP group, and sends it to whoever asks with the room."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from workers.sdk import Client, ControlPlane, Rank, Registered, Unreachable, WorkerError
from workers.sdk.backoff import Backoff
from workers.transfer import NothingFree, Poll, PrefillSide, RoomTaken, Sender, TransferError

from .asking import Failed, Request, answer
from .groups import DpGroup, Pages
from .paged import pages_for
from .ranks import Place
from .settings import Settings
from .work import Desk, Work

BIND_SECONDS = 10.0
"""So long nobody answers the word that a room is here before its request fails."""


class Prefill:
    """One instance. `serve` may be called from any number of threads."""

    def __init__(self, settings: Settings) -> None:
        assert settings.kv is not None
        self.settings = settings
        plane = ControlPlane.at(settings.kv, api=settings.api, instance=settings.instance, token=settings.token)
        self.client = Client(plane, token=settings.launch_token)
        self.desk = Desk(settings.dp)
        self.groups: list[DpGroup[PrefillSide]] = []
        self._standing: Registered | None = None
        with ExitStack() as undo:
            undo.callback(self.close)
            for dp in range(settings.dp):
                self.groups.append(DpGroup(settings, dp, self._side))
            undo.pop_all()
        if settings.instance is not None:
            self.client.count_open(settings.instance, self.desk.open_rooms)

    def _side(self, **parts: Any) -> PrefillSide:
        return PrefillSide(**parts, checksums=self.settings.checksums)

    def register(self, http_port: int) -> None:
        """From now on all ranks are kept registered, whoever restarts."""
        self._standing = self.client.register(self.ranks(http_port))

    def ranks(self, http_port: int) -> list[Rank]:
        settings = self.settings
        return [
            Rank(
                rank_ip=rank.side.endpoint.host,
                rank_port=rank.side.endpoint.port,
                page_size=settings.page_size,
                kv_cache_dtype=settings.told_dtype,
                attn_tp_size=settings.tp,
                attn_tp_rank=at.tp,
                attn_dp_size=settings.dp,
                attn_dp_rank=group.dp,
                pp_size=settings.pp,
                pp_rank=at.pp,
                load_balance_method=settings.load_balance_method,
                prefill_http_port=http_port,
            )
            for group in self.groups
            for at, rank in group.ranks.items()
        ]

    @property
    def ready(self) -> bool:
        return self._standing is not None and self._standing.standing.is_registered

    @property
    def trouble(self) -> str:
        return self._standing.standing.trouble if self._standing is not None else "it has not registered yet"

    def serve(self, request: Request, on: Any = None) -> dict[str, Any]:
        """Comes back when the KV is at the decode. Raises WorkerError, with nothing kept of the request."""
        follows = self.settings.load_balance_method == "follow_bootstrap_room"
        with self.desk.work(request, request.room % self.settings.dp if follows else None) as work:
            if not follows:
                self._bind(work)
            self._note(work, "registered", detail=f"dp{work.dp}")
            token = self._hand_over(self.groups[work.dp], work)
        return answer(request, [token], dp_rank=work.dp)

    def _bind(self, work: Work) -> None:
        """A directory that just restarts is waited for, as its decode waits for the answer."""
        until = time.monotonic() + min(BIND_SECONDS, self.settings.timeout)
        pauses = Backoff(0.1, 1.0).pauses()
        while True:
            try:
                self.client.bind(work.request.room, work.dp)
                return
            except WorkerError as problem:
                pause = next(pauses)
                if not isinstance(problem, Unreachable) or time.monotonic() + pause > until or work.ended:
                    self._note(work, "registered", "failed", detail=str(problem))
                    raise
            time.sleep(pause)

    def _note(self, work: Work, rung: str, result: str = "passed", *, detail: str = "") -> None:
        if self.settings.instance is not None:
            with suppress(WorkerError):
                self.client.note(work.request.room, self.settings.instance, rung, result, detail=detail)

    def _hand_over(self, group: DpGroup[PrefillSide], work: Work) -> int:
        request, until = work.request, time.monotonic() + self.settings.timeout
        with ExitStack() as undo:
            try:
                count = pages_for(len(request.prompt), self.settings.page_size)
                pages = group.taking(lambda: Pages(group, count))
                undo.callback(pages.close)
                senders: dict[Place, Sender] = {}
                for at, rank in group.ranks.items():
                    senders[at] = rank.side.open(request.room, timeout=self.settings.timeout)
                    undo.callback(senders[at].close)
                    work.on_abort(senders[at].abort)
            except NothingFree as problem:
                self._note(work, "connected", "no_memory", detail=str(problem))
                raise Failed(503, f"{problem}; try another prefill, or again") from None
            except RoomTaken as problem:
                raise Failed(409, str(problem)) from None
            with group.lock:
                work.check()
                token = group.runner.prefill(request.prompt, group.caches(pages.of))
            for asked, (at, sender) in enumerate(senders.items(), 1):
                self._check(work, sender.wait_until_asked(left(until)), sender, Poll.WAITING_FOR_INPUT)
                if asked == len(senders):
                    self._note(work, "connected", detail=f"every decode rank has asked, ranks here: {asked}")
                try:
                    group.taking(partial(sender.finish, pages.of[at], metadata={"output_ids": [token]}))
                except TransferError as problem:
                    raise Failed(503, str(problem)) from None
                pages.hand_over(at)
            for sender in senders.values():
                self._check(work, sender.wait(left(until)), sender, Poll.SUCCESS)
        return token

    def _check(self, work: Work, poll: Poll, sender: Sender, wanted: Poll) -> None:
        work.check()
        rung = "connected" if wanted is Poll.WAITING_FOR_INPUT else "verified"
        if poll is Poll.FAILED:
            self._note(work, rung, "failed", detail=sender.reason)
            raise Failed(502, f"the KV of room {sender.room} was not handed over: {sender.reason}")
        if poll < wanted:
            self._note(work, rung, "timed_out", detail=f"within {self.settings.timeout:g} s")
            did = "asked for" if wanted is Poll.WAITING_FOR_INPUT else "taken"
            raise Failed(
                504, f"the KV of room {sender.room} was not {did} by its decode within {self.settings.timeout:g} s"
            )

    def close(self) -> None:
        self.desk.abort("", "the prefill is shutting down")
        for group in self.groups:
            group.close()
        self.client.close()


def left(until: float) -> float:
    return max(0.0, until - time.monotonic())
