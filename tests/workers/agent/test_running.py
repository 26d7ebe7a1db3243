"""However the model is split, it says what it says in one piece."""

import threading

import pytest
import torch

from workers.agent.model import Config, Shard
from workers.agent.ranks import Broken, Group, Place
from workers.agent.running import PlainCache, Runner, oracle

PROMPT = [3, 141, 59, 265, 358, 97, 93, 238, 46]


def split(config: Config, tp: int, pp: int, prompt: list[int], count: int) -> list[int]:
    runner = Runner(config, tp_size=tp, pp_size=pp)
    caches = {at: PlainCache(config.layers // pp) for at in runner.group.places}
    return runner.generate(runner.prefill(prompt, caches), len(prompt), count, caches, on=lambda _: None)


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2), (1, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_split_says_the_same_tokens(tp, pp, dtype):
    config = Config(kv_dtype=dtype)
    said = split(config, tp, pp, PROMPT, 12)
    assert said == oracle(config, PROMPT, 12)
    assert len(set(said)) > 3, "a model that repeats itself proves nothing"


def test_what_it_says_depends_on_the_keys_that_are_kept():
    config = Config()
    runner = Runner(config)
    right, noticed = oracle(config, PROMPT, 12), 0
    for layer in range(config.layers):
        for token in range(len(PROMPT)):
            caches = {at: PlainCache(config.layers) for at in runner.group.places}
            first = runner.prefill(PROMPT, caches)
            keys, values = (kept.clone() for kept in caches[Place(0, 0)].read(layer, len(PROMPT)))
            keys[token], values[token] = 0, 0
            caches[Place(0, 0)].write(layer, 0, keys, values)
            noticed += runner.generate(first, len(PROMPT), 12, caches, on=lambda _: None) != right
    # One token of one layer that did not arrive: nine of ten times the text is another.
    assert noticed > 0.9 * config.layers * len(PROMPT)


def test_a_split_that_does_not_fit_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="4 KV heads cannot be split over 3 TP ranks"):
        Shard(Config(), tp_size=3)
    with pytest.raises(ValueError, match="4 layers cannot be split over 3 PP stages"):
        Shard(Config(), pp_size=3)


def test_when_one_rank_fails_the_others_learn_it_at_once_and_its_error_is_told():
    group = Group(4, 2, patience=60)

    def part(at: Place) -> None:
        if at == Place(2, 1):
            raise LookupError("no page is free")
        if at.pp == 0:
            group.receive("never", at)
        group.reduce(at, torch.zeros(1))

    before = threading.active_count()
    with pytest.raises(LookupError, match="no page is free"):
        group.run(part)
    assert threading.active_count() == before
    # And the next request finds the group whole.
    assert group.run(lambda at: int(group.reduce(at, torch.ones(1)).item())) == dict.fromkeys(group.places, 4)


def test_a_rank_that_never_comes_ends_the_wait():
    group = Group(2, 1, patience=0.2)
    with pytest.raises(Broken):
        group.run(lambda at: group.reduce(at, torch.zeros(1)) if at.tp == 0 else None)
