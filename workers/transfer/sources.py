"""From the rank mapping of `controlplane.domain.rankmap` to the prefill ranks that a receiver asks."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.domain.rankmap import PrefillSizes, RankMapping
from workers.messaging.endpoint import Endpoint
from workers.transfer.layout import Place
from workers.transfer.receiver import Source


def sources_of(
    mapping: RankMapping, prefill: PrefillSizes, address: Callable[[int, int, int], Endpoint], *, is_mla: bool = False
) -> tuple[Source, ...]:
    """`address(cp, tp, pp)`: where that rank of the DP group listens. Later pipeline stages come first, as in SGLang's
    `_setup_bootstrap_infos`: they are the ones that must not be found unprepared.

    >>> from controlplane.domain.rankmap import DecodeRank, map_ranks
    >>> sizes = PrefillSizes(tp_size=2)
    >>> mapping = map_ranks(DecodeRank(tp_size=1, engine_rank=0, is_mla=True), sizes)
    >>> asked = sources_of(mapping, sizes, lambda cp, tp, pp: Endpoint("10.0.0.1", 4000 + tp), is_mla=True)
    >>> [(str(one.endpoint), one.is_dummy) for one in asked]
    [('10.0.0.1:4000', False), ('10.0.0.1:4001', True)]
    """
    return tuple(
        Source(
            address(cp, tp, pp),
            Place(
                tp_rank=tp,
                tp_size=prefill.tp_size,
                pp_rank=pp,
                pp_size=prefill.pp_size,
                cp_rank=cp,
                cp_size=prefill.cp_size,
            ),
            is_dummy=is_mla and mapping.target_tp_rank not in (None, tp),
        )
        for cp in mapping.target_cp_ranks
        for tp in mapping.target_tp_ranks
        for pp in reversed(mapping.target_pp_ranks)
    )
