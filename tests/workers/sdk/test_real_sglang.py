"""The SDK and the real SGLang 0.5.23: its servers keep our ranks, its decodes find them, and we find its own."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.conftest import _why_not
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.workers.sdk.waiting import soon
from workers.sdk import AsyncClient, Client, ControlPlane, Question, Rank, Speaks, read_decode

GENEROUS = 40.0


class Side:
    """The other process. Its servers listen on ports that stay the same over restarts."""

    def __init__(self, log) -> None:
        env = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*")
        self._child = Child([sys.executable, "-m", "tests.workers.sdk.sglang_side"], env=env, log=log, stdin=True)
        self._child.wait_for_line("^READY$", timeout=120)
        self.kv_port, self.engine_port = free_port(), free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.kv_port}"

    @property
    def at(self) -> ControlPlane:
        return ControlPlane.at(self.address, engine=f"127.0.0.1:{self.engine_port}")

    def __call__(self, word: str, *arguments: Any) -> Any:
        heard = len(self._child.lines)
        self._child.say(json.dumps([word, *arguments]))
        answer = json.loads(self._child.wait_for_line(r"^ANSWER (.*)$", timeout=90, after=heard)[1])
        assert "failed" not in answer, answer["failed"]
        return answer["said"]

    def serve(self) -> None:
        self("serve", self.kv_port, self.engine_port)

    def end(self) -> None:
        self._child.kill9()


@pytest.fixture(scope="module")
def process(tmp_path_factory) -> Iterator[Side]:
    if missing := _why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    side = Side(tmp_path_factory.mktemp("sglang") / "log")
    yield side
    side.end()


@pytest.fixture
def sglang(process: Side) -> Iterator[Side]:
    """With its own servers running, empty, on new ports."""
    process.kv_port, process.engine_port = free_port(), free_port()
    process.serve()
    yield process
    process("stop")


def ranks(tp: int, dp: int = 1) -> list[Rank]:
    return [
        Rank(
            rank_ip="127.0.0.1",
            rank_port=free_port(),
            page_size=64,
            attn_tp_size=tp,
            attn_tp_rank=t,
            attn_dp_size=dp,
            attn_dp_rank=d,
        )
        for d in range(dp)
        for t in range(tp)
    ]


@pytest.mark.timeout(240)
async def test_a_real_decode_finds_ranks_that_the_sdk_registered_at_sglang_s_own_server(sglang: Side):
    ours = ranks(tp=4, dp=2)
    async with AsyncClient(sglang.at, token="launch-1") as client:
        kept = await client.register(ours, lease_seconds=1)
        await kept.registered(within=GENEROUS)
        found = await client.until_ready(Question(read_decode({"tp_size": 2, "is_mla": False})), within=GENEROUS)
        for dp, rank in ((0, 0), (1, 1)):
            theirs = sglang("decode", sglang.address, 2, rank, False, dp)
            assert theirs == [[one.host, one.port, one.dummy] for one in found.targets(dp, rank)]
        # It is watched, and was not counted twice: the directory is still the same.
        await soon(lambda: kept.standing.whole_once)
        assert kept.standing.speaks is Speaks.SGLANG and kept.standing.is_registered
        sglang("stop")
        sglang.serve()
        again = Question(read_decode({"tp_size": 4, "is_mla": False}))
        theirs = (await client.until_ready(again, within=GENEROUS)).targets(0, 3)
        assert [one.port for one in theirs] == [ours[3].rank_port]
        assert sglang("decode", sglang.address, 4, 3, False, 0) == [["127.0.0.1", ours[3].rank_port, False]]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mla", [False, True])
def test_the_sdk_finds_real_prefill_ranks_in_the_order_and_with_the_dummies_of_a_real_decode(sglang: Side, mla: bool):
    ports = sglang("prefill", sglang.kv_port, {"tp": 4, "pp": 2})
    with Client(sglang.at) as client:
        question = Question(read_decode({"tp_size": 2, "is_mla": mla, "page_size": 64}), engine_rank=1)
        found = client.until_ready(question, within=GENEROUS)
    theirs = sglang("decode", sglang.address, 2, 1, mla, 0)
    assert theirs == [[one.host, one.port, one.dummy] for one in found.targets(0, 1)]
    assert [port for _, port, _ in theirs] == [ports[f"0.0.{tp}.{pp}"] for tp in (2, 3) for pp in (1, 0)]


def test_rooms_and_weights_are_understood_by_sglang_s_servers_and_clients(sglang: Side):
    with Client(sglang.at) as client:
        room = client.mint.room(dp_size=4, dp=3)
        client.bind(room, 3)
        client.bind(2**63 - 1, 0)
        assert client.find_rooms([room, 2**63 - 1], within=GENEROUS) == {room: 3, 2**63 - 1: 0}
        assert sglang("query", sglang.address, [room, 5, 2**63 - 1]) == {str(room): 3, str(2**63 - 1): 0}
        weights = {f"layers.{n}": (2**62 + n, n, 2) for n in range(3000)}
        client.publish_weights(2, "127.0.0.1:17001", weights)
        assert client.fetch_weights(2).tensors() == weights
        session, told = sglang("loader", f"127.0.0.1:{sglang.engine_port}", 2)
        assert session == "127.0.0.1:17001" and {name: tuple(t) for name, t in told.items()} == weights
