"""Our rank mapping equals SGLang's own, everywhere but where integer division makes nonsense of it.

| decode TP and prefill TP          | SGLang 0.5.23                                              | ours    |
|-----------------------------------|------------------------------------------------------------|---------|
| one divides the other             | a mapping                                                  | equal   |
| decode larger, not a multiple     | rounds down; its last ranks ask for a prefill rank that    | refused |
|                                   | does not exist (404, the request fails)                    |         |
| prefill larger, not a multiple    | rounds down; the last prefill ranks are asked by nobody    | refused |
|                                   | and hold the request up until its time-out                 |         |
| MLA with sharding, CP 1, unequal  | fails an assertion                                         | refused |
| decode CP above 1                 | fails an assertion                                         | refused |
| decode PP neither 1 nor prefill's | fails an assertion                                         | refused |

(SGLang's assertions vanish under `python -O`; ours do not.)
"""

import pytest

NOT_DIVISIBLE = {(d, p) for d in range(1, 9) for p in range(1, 9) if max(d, p) % min(d, p)}


@pytest.fixture(scope="module")
def compared(sglang_process):
    return sglang_process.open("rank_mapping_oracle")


def test_every_mapping_is_equal_and_every_assertion_is_a_refusal(compared):
    assert compared["differences"] == []
    assert compared["tally"] == {
        "equal": 148_980,
        "refused by us alone": 197_340,
        "refused by both": 2_086_704,
    }


def test_we_refuse_alone_only_where_sglang_rounds_sizes_that_do_not_divide(compared):
    def pairs(wanted):
        return {f"decode {d}, prefill {p}" for d, p in NOT_DIVISIBLE if wanted(d, p)}

    assert {kind: set(found) for kind, found in compared["nonsense"].items()} == {
        "tp_not_divisible: asks for prefill ranks that do not exist": pairs(lambda d, p: d > p),
        "tp_not_divisible: leaves prefill ranks that nobody asks": pairs(lambda d, p: d < p),
    }
