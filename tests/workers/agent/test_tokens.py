"""Prefill here, decode there, split in any way: the tokens are those of the whole model in one process."""

import itertools

import pytest

from tests.workers.agent.pairs import pair, prompts

FOLLOW, BOUND = "follow_bootstrap_room", "round_robin"
# (prefill tp, pp, dp), (decode tp, pp), method, backend: every size on each side, every way to find the DP rank.
SAMPLE = [
    ((1, 1, 1), (4, 1), FOLLOW, "zmq"),
    ((2, 1, 2), (2, 1), BOUND, "zmq"),
    ((4, 1, 1), (1, 1), FOLLOW, "zmq"),
    ((4, 2, 1), (2, 1), BOUND, "zmq"),
    ((2, 2, 2), (4, 2), FOLLOW, "zmq"),
    ((1, 2, 2), (1, 2), BOUND, "zmq"),
    ((1, 1, 1), (2, 1), BOUND, "mooncake"),
    ((2, 1, 1), (1, 1), FOLLOW, "mooncake"),
]
EVERYTHING = [
    ((ptp, ppp, pdp), (dtp, dpp), method, backend)
    for ptp, dtp, ppp, dpp, pdp, method, backend in itertools.product(
        (1, 2, 4), (1, 2, 4), (1, 2), (1, 2), (1, 2), (FOLLOW, BOUND), ("zmq", "mooncake")
    )
    # What the rank mapping refuses: a decode with more stages than the prefill.
    if dpp in (1, ppp)
]


def spelled(case):
    (ptp, ppp, pdp), (dtp, dpp), method, backend = case
    return f"tp{ptp}pp{ppp}dp{pdp}-to-tp{dtp}pp{dpp}-{method}-{backend}"


def says_the_same(directory, case, *, requests, dtype="float32"):
    (ptp, ppp, pdp), (dtp, dpp), method, backend = case
    split = {"tp": ptp, "pp": ppp, "dp": pdp, "load_balance_method": method}
    with pair(directory, prefill=split, decode={"tp": dtp, "pp": dpp}, backend=backend, dtype=dtype) as both:
        for prompt in prompts(requests, seed=ptp * 100 + dtp * 10 + ppp):
            assert both.ask(prompt) == both.expected(prompt)
        stocks = [rank.side.pages for group in both.decode.groups for rank in group.ranks.values()]
        stocks += [rank.side.pages for group in both.prefill.groups for rank in group.ranks.values()]
        assert all(stock.free == stock.size for stock in stocks), "pages are missing"
        assert both.prefill.desk.open_rooms() == dict.fromkeys(range(pdp), 0)


@pytest.mark.parametrize("case", SAMPLE, ids=spelled)
def test_a_pair_says_what_the_whole_model_says(directory, case):
    says_the_same(directory, case, requests=3)


def test_in_half_precision_too(directory):
    says_the_same(directory, ((2, 1, 1), (4, 1), FOLLOW, "zmq"), requests=2, dtype="bfloat16")


@pytest.mark.soak
@pytest.mark.parametrize("case", EVERYTHING, ids=spelled)
def test_every_split_says_what_the_whole_model_says(directory, case):
    says_the_same(directory, case, requests=5)
