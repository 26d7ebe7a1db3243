"""The decode agent: finds who has the KV of a room, pulls it onto every rank, verifies it, and says the rest of the tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from workers.messaging import Endpoint
from workers.sdk import Client, ControlPlane, Question, Resolved, WorkerError, read_decode
from workers.transfer import DecodeSide, NothingFree, Poll, Receiver, RoomTaken, Source, TransferError
from workers.transfer import Place as Seat
from workers.transfer.receiving import Failure

from .asking import Failed, Request, answer
from .groups import DpGroup, Pages
from .paged import pages_for
from .ranks import Place
from .replaced import Replaced
from .settings import Settings
from .telling import Telling
from .work import Desk, Work

NO_SERVER = "127.0.0.1:8998"
TURN_SECONDS = 0.2
"""How long one rank is waited for before the others are looked at."""
STATUS = {
    Failure.UNREACHABLE: 503,
    Failure.LOST: 503,
    Failure.TIMED_OUT: 504,
    Failure.ABORTED: 499,
    Failure.ENGINE_RESET: 503,
}
"""What else goes wrong is the prefill's fault: 502."""


class Decode:
    """One instance. `serve` may be called from any number of threads."""

    ready = True
    trouble = ""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Each request names the server that knows its prefill; this is for reports, and for whom it belongs to.
        plane = ControlPlane.at(
            settings.kv or NO_SERVER, api=settings.api, instance=settings.instance, token=settings.token
        )
        self.client = Client(plane, token=settings.launch_token)
        self.desk = Desk(settings.dp)
        self.telling = Telling(self.client)
        self.groups: list[DpGroup[DecodeSide]] = []
        with ExitStack() as undo:
            undo.callback(self.close)
            for dp in range(settings.dp):
                self.groups.append(DpGroup(settings, dp, DecodeSide))
            undo.pop_all()
        told = {
            "tp_size": settings.tp,
            "pp_size": settings.pp,
            "page_size": settings.page_size,
            "kv_cache_dtype": settings.told_dtype,
            "is_mla": False,
        }
        self._decode = read_decode(told)
        self._replaced = Replaced(self.client, Question(self._decode))
        if settings.instance is not None:
            self.client.count_open(settings.instance, self.desk.open_rooms)

    def serve(self, request: Request, on: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
        """All tokens; `on` is told each as it comes. Raises WorkerError: nothing that was not verified is ever used."""
        with self.desk.work(request) as work:
            prefill, dp = self._resolved(request)
            tokens = self._pull(self.groups[work.dp], work, prefill, dp, on)
        return answer(request, tokens, dp_rank=work.dp, prefill_dp_rank=dp, prefill=prefill.instance)

    def _resolved(self, request: Request) -> tuple[Resolved, int]:
        """Who has the KV, and in which DP group; both are asked for until they are known."""
        began = time.monotonic()
        try:
            prefill = self._resolve(request)
        except WorkerError as problem:
            self.telling.could_not_resolve(request.room, request.place, problem, took=time.monotonic() - began)
            raise
        self.telling.resolved(request.place, prefill)
        try:
            dp = self.client.dp_of(request.room, prefill, within=self.settings.timeout)
        except WorkerError as problem:
            self.telling.note(request.room, prefill, "resolved", "failed", detail=str(problem))
            raise
        took = time.monotonic() - began
        launch = f", launch {prefill.launch}" if prefill.launch is not None else ""
        self.telling.note(request.room, prefill, "resolved", detail=f"dp{dp}{launch}", took=took)
        return prefill, dp

    def _resolve(self, request: Request) -> Resolved:
        pps = range(self.settings.pp)
        if len(pps) == 1:
            return self.client.until_ready(Question(self._decode), place=request.place, within=self.settings.timeout)
        # One question is about one pipeline stage.
        found = [
            self.client.until_ready(
                Question(self._decode, pp_rank=pp), place=request.place, within=self.settings.timeout
            )
            for pp in pps
        ]
        if len({(one.launch, one.token) for one in found}) > 1:
            raise Failed(503, "the prefill restarted while it was asked for; try again")
        return merged(found)

    def _pull(
        self, group: DpGroup[DecodeSide], work: Work, prefill: Resolved, dp: int, on: Callable[[int], None]
    ) -> list[int]:
        request, size = work.request, self.settings.page_size
        prompt = pages_for(len(request.prompt), size)
        with ExitStack() as undo:
            try:
                pages = group.taking(lambda: Pages(group, prompt))
                undo.callback(pages.close)
                rest = pages_for(len(request.prompt) + request.count, size) - prompt
                more = group.taking(lambda: Pages(group, rest))
                undo.callback(more.close)
                receivers: dict[Place, Receiver] = {}
                kept = dict(pages.of)
                for at, rank in group.ranks.items():
                    mapping = prefill.rank(at.tp, at.pp).mapping
                    opened = partial(
                        rank.side.open,
                        request.room,
                        sources(prefill, dp, at),
                        pages.of[at],
                        required_dst_info_num=mapping.required_dst_info_num,
                        answers_needed=mapping.required_prefill_response_num,
                        timeout=self.settings.timeout,
                        replaced=lambda: self._replaced.why(request.place, prefill),
                    )
                    receivers[at] = group.taking(opened)
                    pages.hand_over(at)
                    undo.callback(receivers[at].close)
                    work.on_abort(receivers[at].abort)
            except NothingFree as problem:
                self.telling.note(request.room, prefill, "connected", "no_memory", detail=str(problem))
                raise Failed(503, f"{problem}; try another decode, or again") from None
            except RoomTaken as problem:
                raise Failed(409, str(problem)) from None
            if all(receiver.state.failure is not Failure.UNREACHABLE for receiver in receivers.values()):
                self.telling.note(
                    request.room, prefill, "connected", detail=f"decode dp{group.dp}, ranks: {len(receivers)}"
                )
            first = self._verified(work, prefill, receivers)
            caches = group.caches({at: kept[at] + more.of[at] for at in group.ranks})

            def told(token: int) -> None:
                work.check()
                on(token)

            with group.lock:
                tokens = group.runner.generate(first, len(request.prompt), request.count, caches, on=told)
            self.telling.note(request.room, prefill, "consumed")
        return tokens

    def _verified(self, work: Work, prefill: Resolved, receivers: dict[Place, Receiver]) -> int:
        """The first token, as every rank has it. Raises Failed for the first rank that has not."""
        room, said = work.request.room, set()
        for receiver in ended(receivers.values(), within=self.settings.timeout + 1.0):
            poll, state = receiver.state.poll, receiver.state
            if poll is not Poll.SUCCESS:
                failure = state.failure or Failure.TIMED_OUT
                if failure in (Failure.UNREACHABLE, Failure.LOST, Failure.TIMED_OUT, Failure.PREFILL_FAILED):
                    self.client.invalidate(prefill)
                rung = "connected" if failure is Failure.UNREACHABLE else "verified"
                self.telling.note(room, prefill, rung, str(failure), detail=state.reason)
                work.check()
                where = prefill.instance or str(prefill.place)
                raise Failed(
                    STATUS.get(failure, 502), f"the KV of room {room} did not come from {where}: {state.reason}"
                )
            said.add(int(receiver.metadata()["output_ids"][0]))
        self.telling.note(room, prefill, "verified")
        if len(said) != 1:
            raise Failed(502, f"the prefill ranks of room {room} disagree about its first token: {sorted(said)}")
        return said.pop()

    def close(self) -> None:
        self.desk.abort("", "the decode is shutting down")
        for group in self.groups:
            with suppress(TransferError):
                group.close()
        self.client.close()


def ended(receivers: Iterable[Receiver], *, within: float) -> Iterator[Receiver]:
    """Each when it is over, and those that failed before others that still wait; after `within` seconds also those."""
    waiting, end = list(receivers), time.monotonic() + within
    while waiting:
        first = waiting[0]
        left = end - time.monotonic()
        first.wait(min(left, TURN_SECONDS) if len(waiting) > 1 else left)
        over = [one for one in waiting if one.state.is_over] if left > 0 else waiting
        waiting = [one for one in waiting if one not in over]
        yield from sorted(over, key=lambda one: one.state.poll)


def sources(prefill: Resolved, dp: int, at: Place) -> tuple[Source, ...]:
    """Whom the rank at `at` asks: the order is that of the answer."""
    sizes = prefill.topology
    return tuple(
        Source(
            Endpoint.at(target.host, target.port),
            Seat(
                tp_rank=target.slot.tp,
                tp_size=sizes.tp,
                pp_rank=target.slot.pp,
                pp_size=sizes.pp,
                cp_rank=target.slot.cp,
                cp_size=sizes.cp,
            ),
            target.dummy,
        )
        for target in prefill.targets(dp, at.tp, at.pp)
    )


def merged(found: list[Resolved]) -> Resolved:
    """One answer for all pipeline stages of the decode."""
    return replace(found[0], ranks=tuple(rank for one in found for rank in one.ranks))
