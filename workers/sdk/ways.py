"""The three ways to resolve a prefill: a control plane's own door in one round trip, its API in one, SGLang's wire rank by rank.

The last is what any bootstrap server can; source: conn.py, `try_ensure_parallel_info` and `_setup_bootstrap_infos`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controlplane.domain.compatibility import check
from controlplane.domain.decodes import SWITCHES, UNKNOWN, Decode
from controlplane.domain.disagreement import Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Address
from controlplane.domain.rankmap import RankMapping, map_ranks
from controlplane.domain.topology import Slot, Topology
from controlplane.protocol.observed import TOPOLOGY_QUERY, read_slot, read_topology, slot_query

from .errors import Garbled, Incompatible, NotReady, WorkerError
from .exchange import Ask
from .places import Place
from .resolved import BODY, Question, RankTargets, Resolved, Target, identity, question_body, read_resolved
from .servers import JSON_BODY, ControlPlane, checked, decoded
from .wire import Wire

DOOR_PATH, API_PATH = "/pd/v1/resolve", "/api/v1/resolve"
MOST_TARGETS = 50_000
ANSWER_LIMIT = 64 * 2**20


async def in_one(
    wire: Wire, at: ControlPlane, place: Place, path: str, question: Question, known: Resolved | None, *, within: float
) -> Resolved:
    """Ask `place` (the door or the API) at `path`, everything in one answer. `known` comes back when it still holds (304).

    Raises NotFound (404) where there is no such path or instance, Disagreement for a pair that cannot work, NotReady,
    Unreachable.
    """
    headers = at.headers(**JSON_BODY)
    if known is not None:
        headers["if-none-match"] = f'"{known.identity}"'
    # The API has no other way to know which instance is meant.
    body = question_body(at.instance or ("default" if path == API_PATH else None), question)
    answer = checked(place, await wire.ask(place, Ask("POST", path, headers, body, most=ANSWER_LIMIT), within=within))
    if answer.status == 304 and known is not None:
        return known
    etag = answer.headers.get("etag", "").removeprefix("W/").strip('"')
    try:
        return read_resolved(at.kv, decoded(place, answer, BODY), etag)
    except (WorkerError, Refused) as problem:
        raise Garbled(str(place), problem.sentence) from None


async def rank_by_rank(wire: Wire, at: ControlPlane, question: Question, *, within: float) -> Resolved:
    """Ask SGLang's own wire: the topology, every rank that is needed, and the topology again, lest two launches be mixed.

    `within` bounds each of the questions. Raises Incompatible, NotReady, Unreachable.
    """
    prefill, port = await _topology(wire, at, within)
    ranks, groups = planned(question, prefill)
    needed = sorted({slot for group in groups for rank in ranks for slot in slots_of(rank[2], group)})
    addresses = {slot: await _slot(wire, at, slot, within) for slot in needed}
    again, _ = await _topology(wire, at, within)
    if again != prefill:
        raise NotReady(str(at.kv), 503, "the instance changed while it was asked; ask again")
    mla = question.decode.is_mla is True
    targets = tuple(
        RankTargets(
            engine_rank,
            stage,
            mapping,
            {
                dp: tuple(Target(slot, *addresses[slot], _dummy(slot, mapping, mla)) for slot in slots_of(mapping, dp))
                for dp in groups
            },
        )
        for engine_rank, stage, mapping in ranks
    )
    return Resolved(
        at.kv,
        at.instance,
        prefill.topology,
        prefill.facts.follow_bootstrap_room,
        targets,
        identity(targets),
        prefill_http_port=port,
    )


async def still_there(wire: Wire, at: ControlPlane, known: Resolved, turn: int, *, within: float) -> bool:
    """Whether the wire tells the same topology and, for one of the ranks in turn, the same address: what can be asked cheaply
    of a server that has no ETag."""
    prefill, _ = await _topology(wire, at, within)
    targets = sorted(set(known.all_targets()), key=lambda target: target.slot)
    if prefill.topology != known.topology or not targets:
        return False
    target = targets[turn % len(targets)]
    return await _slot(wire, at, target.slot, within) == (target.host, target.port)


def planned(question: Question, prefill: Prefill) -> tuple[list[tuple[int, int, RankMapping]], tuple[int, ...]]:
    """The mapping of each rank of the decode that asks (engine rank, stage, mapping), and the DP groups it is about.

    Raises Incompatible for a pair that cannot work, with what SGLang would do, and for ranks that do not exist.
    """
    decode, topology = question.decode, prefill.topology
    try:
        if decode.tp_size is UNKNOWN:
            raise Refused("tp_size is needed: which ranks a decode takes KV from depends on it")
        check(decode, prefill)
        wanted = list(_wanted(question))
        mapped = [(rank, stage, _mapping(decode, prefill, rank, stage)) for rank, stage in wanted]
        groups = _groups(question, topology)
    except Refused as problem:
        raise Incompatible(problem.sentence) from None
    if sum(1 for _, _, mapping in mapped for _ in slots_of(mapping, 0)) * len(groups) > MOST_TARGETS:
        raise Incompatible("that is more than one answer holds: ask for one engine_rank, or for one dp")
    return mapped, groups


def slots_of(mapping: RankMapping, dp: int) -> Iterator[Slot]:
    """The ranks to connect to in one DP group, in SGLang's order.

    >>> from controlplane.domain.rankmap import DecodeRank, PrefillSizes
    >>> mapping = map_ranks(DecodeRank(tp_size=1, engine_rank=0), PrefillSizes(tp_size=1, pp_size=2))
    >>> [str(slot) for slot in slots_of(mapping, 3)]
    ['dp3 cp0 tp0 pp1', 'dp3 cp0 tp0 pp0']
    """
    for cp in mapping.target_cp_ranks:
        for tp in mapping.target_tp_ranks:
            for pp in reversed(mapping.target_pp_ranks):
                yield Slot(dp, cp, tp, pp)


def _mapping(decode: Decode, prefill: Prefill, engine_rank: int, stage: int) -> RankMapping:
    """As the control plane maps it: refused when what nobody said of the decode would change it."""
    mapping = map_ranks(decode.rank(engine_rank, stage), prefill.sizes)
    for switch in SWITCHES:
        # An MLA model is not a hybrid one as well.
        if getattr(decode, switch) is UNKNOWN and not (switch == "is_hybrid_mla" and decode.is_mla is True):
            other = replace(decode, **{switch: True})  # type: ignore[arg-type]
            if map_ranks(other.rank(engine_rank, stage), prefill.sizes) != mapping:
                raise Refused(f"{switch} is needed: with {prefill.topology} which ranks send depends on it")
    return mapping


def _wanted(question: Question) -> Iterator[tuple[int, int]]:
    if question.engine_rank is not None:
        yield question.engine_rank, question.pp_rank
        return
    decode = question.decode
    stages = decode.pp_size if isinstance(decode.pp_size, int) else 1
    assert isinstance(decode.tp_size, int)
    for stage in range(stages):
        for rank in range(decode.tp_size):
            yield rank, stage


def _groups(question: Question, topology: Topology) -> tuple[int, ...]:
    if question.dp is None:
        return tuple(range(topology.dp))
    if not 0 <= question.dp < topology.dp:
        raise Refused(f"dp {question.dp} does not exist: the prefill has {topology.dp} DP groups")
    return (question.dp,)


def _dummy(slot: Slot, mapping: RankMapping, mla: bool) -> bool:
    return mla and mapping.target_tp_rank is not None and slot.tp != mapping.target_tp_rank


async def _topology(wire: Wire, at: ControlPlane, within: float) -> tuple[Prefill, int | None]:
    answer = checked(at.kv, await wire.ask(at.kv, Ask("GET", TOPOLOGY_QUERY, at.headers()), within=within))
    try:
        topology, facts, port = read_topology(answer.body)
    except Refused as problem:
        raise Garbled(str(at.kv), problem.sentence) from None
    return Prefill(topology, facts), port


async def _slot(wire: Wire, at: ControlPlane, slot: Slot, within: float) -> Address:
    answer = checked(at.kv, await wire.ask(at.kv, Ask("GET", slot_query(slot), at.headers()), within=within))
    try:
        return read_slot(answer.body)
    except Refused as problem:
        raise Garbled(str(at.kv), f"for {slot}: {problem.sentence}") from None
