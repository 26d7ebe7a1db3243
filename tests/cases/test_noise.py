"""Reported cases: a million identical error lines."""

import time

from tests.cases.ranks import eventually
from tests.cases.test_series import PATIENCE_SECONDS, sampled
from tests.wire.conftest import Server

MALFORMED = 5000


def test_OPS_06_a_source_that_sends_nonsense_is_told_every_time_and_heard_a_few_times_with_the_true_count(serve):
    one: Server = serve(PDCP_PROBE_NETWORKS="none")
    client = one.kv("noisy", keep=True)
    assert client.put(attn_tp_size=2).status == 200
    began, before = time.monotonic(), len(one.process.log().splitlines())
    for number in range(MALFORMED):
        # Half of them equal, half of them each a little different.
        answer = client.put(attn_tp_rank=7 if number % 2 else 10 + number)
        assert answer.status == 400 and "tp rank" in answer.text
    seconds = time.monotonic() - began
    lines = one.process.log().splitlines()[before:]
    assert 1 <= len(lines) <= 70 * (1 + seconds / 60), f"{len(lines)} lines in {seconds:.0f} s"
    assert "tp rank 10 does not exist" in lines[0], "the first is told in full"
    eventually(lambda: sampled(one, ("refusals",))["refusals"] == MALFORMED, within=PATIENCE_SECONDS)
