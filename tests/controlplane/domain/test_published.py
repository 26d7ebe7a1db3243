"""How many ranks of how many publish their weights, and why two sessions claim one."""

import doctest

import pytest

from controlplane.domain import published
from controlplane.domain.published import Clash, coverage


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (coverage(16, 15, [], 0, 16), "16 of 16 ranks"),
        (coverage(15, 15, [(11, 11)], 0, 16), "15 of 16 ranks, missing 11"),
        (coverage(15, 15, [(11, 11)], 0, None), "15 of at least 16 ranks, missing 11"),
        (coverage(1, 3, [], 3, 8), "1 of 8 ranks, missing 0–2, 4–7"),
        (coverage(3, 2, [], 0, 1, beyond=2), "1 of 1 rank"),
        (coverage(2, 9, [(1, 8)], 0, 4, beyond=1), "1 of 4 ranks, missing 1–3"),
    ],
)
def test_who_is_missing_is_named_in_runs(given, said):
    assert given.sentence == said
    assert given.complete is ("missing" not in said)


def test_many_gaps_are_named_as_far_as_they_fit_and_the_rest_is_counted():
    odd = coverage(20, 38, [(n, n) for n in range(1, 38, 2)], 0, 40, limit=3)
    assert odd.sentence == "20 of 40 ranks, missing 1, 3, 5 and 17 more"


def test_what_a_conflict_most_likely_is_depends_on_how_they_named_themselves():
    old = Clash(0, "b:1", "a:1", old_style=True, same=False)
    assert "two pipeline stages" in old.why and "publish by rank" in old.advice
    copies = Clash(0, "b:1", "a:1", old_style=False, same=True)
    assert "two copies of one seed" in copies.why and copies.advice.startswith("Stop one of a:1 and b:1")
    strangers = Clash(0, "b:1", "a:1", old_style=False, same=False)
    assert "another's name" in strangers.why
    assert Clash(0, "b:1", None, old_style=False, same=False).advice == ""


def test_examples_hold():
    assert doctest.testmod(published).failed == 0
