"""Prefill says which DP rank took a room; decode asks."""

from collections.abc import Iterator
from typing import Any

from sglang.srt.disaggregation.common.conn import CommonKVReceiver, CommonKVSender

from tests.compat import harness
from tests.compat.harness import Prefill, Shape

LARGEST = 2**63 - 1


def register_and_query(port: int) -> Iterator[dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(system_dp=3), port).register_all()
    with harness.published(dp_size=3, load_balance_method="round_robin"):
        for room, dp in ((LARGEST, 1), (0, 2), (7, 0)):
            rank = prefill.ranks[dp, 0, 0, 0]
            # Whole replicas have no attention DP; the controller tells a sender which one it is.
            rank.attn_dp_rank = dp
            CommonKVSender(rank, address, room)
    found = CommonKVReceiver.query_prefill_dp_ranks(address, [LARGEST, 5, 0, LARGEST, 7])
    yield {"found": found}
    with harness.published(dp_size=3, load_balance_method="round_robin"):
        CommonKVSender(prefill.ranks[2, 0, 0, 0], address, 7)
    yield {"rebound": CommonKVReceiver.query_prefill_dp_ranks(address, [7])}
