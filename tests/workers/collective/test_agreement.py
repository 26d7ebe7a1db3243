"""When ranks agree, when they need not, and what is said when they cannot."""

import logging

import pytest

from workers.collective import Launch, NobodyTold, NotAgreed, NotInitialised, agree, agree_on_port
from workers.collective.message import encode


class Told:
    """A group in which the leader said something."""

    def __init__(self, rank: int, said: Launch | Exception | bytes) -> None:
        self.rank, self.size, self.said = rank, 4, said
        self.calls: list[bytes] = []

    def broadcast(self, said: bytes, *, within: float) -> bytes:
        self.calls.append(said)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said if isinstance(self.said, bytes) else encode(self.said)


def test_one_node_uses_its_own_port_and_asks_nobody():
    group = Told(0, Launch(1))
    assert agree(Launch(9123, "t"), nnodes=1, group=lambda: group) == Launch(9123, "t")
    assert group.calls == []
    assert agree_on_port(9123, nnodes=1) == 9123


def test_everybody_takes_the_leader_s_port_and_token_and_says_so(caplog):
    caplog.set_level(logging.INFO, logger="workers.collective.agreement")
    leader, other = Told(0, Launch(8998, "L")), Told(2, Launch(8998, "L"))
    assert agree(Launch(8998, "L"), nnodes=2, group=lambda: leader) == Launch(8998, "L")
    assert leader.calls == [encode(Launch(8998, "L"))]
    assert caplog.records == []
    assert agree(Launch(9123, "own"), nnodes=2, group=lambda: other) == Launch(8998, "L")
    (said,) = caplog.records
    assert "rank 2 of 4 takes the leader's bootstrap port 8998 instead of its own 9123" in said.getMessage()
    assert b"own" not in other.calls[0], "only the leader's word is sent"


def test_without_a_process_group_nobody_guesses():
    with pytest.raises(
        NotInitialised, match=r"2 nodes cannot know .* its own 9123 would be refused.*init_process_group"
    ):
        agree(Launch(9123), nnodes=2, group=lambda: None)


@pytest.mark.parametrize(
    ("problem", "kind", "why"),
    [
        (TimeoutError("x"), NobodyTold, r"rank 1 of 4 was not told .* within 3 s"),
        (OSError("Connection closed by peer"), NobodyTold, "lost another rank .* Connection closed by peer"),
        (b"\0" * 256, NotAgreed, "cannot read what world rank 0 told"),
    ],
)
def test_what_goes_wrong_is_said_by_rank(problem, kind, why):
    with pytest.raises(kind, match=why):
        agree(Launch(9123), nnodes=2, group=lambda: Told(1, problem), within=3)


def test_a_launch_of_no_nodes_is_none():
    with pytest.raises(NotAgreed, match="at least one node"):
        agree(Launch(1), nnodes=0)
