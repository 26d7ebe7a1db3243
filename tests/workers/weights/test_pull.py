"""Weights go from a seed into another module, found through a real bootstrap process, and every byte of them is proven."""

import errno
import os
import shutil

import pytest
import torch
from torch import nn

from tests.support.machine import slowness
from tests.workers.weights.seeding import ONE, same, sample
from workers.transfer.memory import Segment
from workers.weights import NoSeed, Shard, WeightsError, holding
from workers.weights.holding import Holding
from workers.weights.manifest import BOOK, CHAIN, CONTENT
from workers.weights.pull import Pull
from workers.weights.seed import Seed

REAL = pytest.mark.parametrize("here", ["zmq", "mooncake"], indirect=True)


@REAL
def test_a_replica_has_the_weights_of_its_seed_and_says_that_they_are_proven(here, name):
    original, copy = sample(number=1), sample()
    seed = here.seed(name, original)
    seen = []
    loaded = here.pull(copy, [name], on_progress=seen.append, step_bytes=20_000).run(within=30)
    assert same(original, copy)
    assert loaded.verified and loaded.manifest.content == seed.manifest.content
    assert (loaded.seeds, loaded.session, loaded.bytes) == (
        (name,),
        seed.session,
        sum(x.nbytes for x in copy.parameters()),
    )
    assert "every byte verified by digest" in loaded.sentence
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[0].done == 0 and seen[-1].done == seen[-1].total
    assert seen[-1].line.startswith("rank 0: 55.9 kB of 55.9 kB (100 %)") and seen[-1].line.endswith(f"from {name}")


def test_what_is_published_is_what_sglang_publishes_and_three_names_that_nobody_there_looks_up(here, name):
    seed = here.seed(name, sample(number=1))
    told = here.client(name).fetch_weights(0).tensors()
    parameters = {name: (tensor.numel(), tensor.element_size()) for name, tensor in sample().named_parameters()}
    assert {name: tensor[1:] for name, tensor in told.items() if name in parameters} == parameters
    beside = sorted(set(told) - set(parameters))
    assert [name.rpartition("/")[0] + "/" for name in beside] == [CONTENT, BOOK]
    assert beside[0] == CONTENT + seed.manifest.content


def test_all_ranks_of_tp_2_and_pp_2_get_their_own_part_and_no_other_one_fits(here, name):
    shards = [Shard(tp_rank=n % 2, tp_size=2, pp_rank=n // 2, pp_size=2) for n in range(4)]
    originals = [sample(shard, number=5, layers=4) for shard in shards]
    for shard, original in zip(shards, originals, strict=True):
        here.seed(name, original, shard)
    for shard, original in zip(shards, originals, strict=True):
        copy = sample(shard, layers=4)
        assert here.pull(copy, [name], shard).run(within=30).verified
        assert same(original, copy)
    with pytest.raises(
        NoSeed, match=r"rank 0 has 0 B of .* layers\.0\.weight has 4608 elements of 2 bytes there, 9216"
    ):
        here.pull(sample(layers=2), [name]).run(within=30)
    other = Shard(tp_rank=0, tp_size=2, pp_rank=0, pp_size=1)
    with pytest.raises(
        NoSeed, match="of rank 0 of TP 2, stage 0 of PP 2, these of rank 0 of TP 2, stage 0 of PP 1: both"
    ):
        here.pull(sample(other, layers=2), [name], other).run(within=30)


@pytest.mark.parametrize(
    ("there", "wanted", "why"),
    [
        ({"dtype": torch.float16}, {}, "layers.0.weight is float16 there, bfloat16 here"),
        ({"layers": 2}, {}, "it does not publish layers.2.weight and 1 more, which this module has"),
        ({"layers": 4}, {}, "it has layers.3.weight and 1 more, which this module lacks: it is another model"),
    ],
)
def test_a_seed_of_another_model_is_refused_at_once_with_the_tensor_that_says_so(here, name, there, wanted, why):
    here.seed(name, sample(number=1, **there))
    with pytest.raises(NoSeed) as caught:
        here.pull(sample(**wanted), [name]).run(within=60)
    assert f"{name}: {why}" in caught.value.sentence


def test_a_shape_that_only_has_the_same_number_of_elements_does_not_fit(here, name):
    here.seed(name, nn.Linear(6, 4, bias=False))
    with pytest.raises(NoSeed, match=r"weight has the shape \(4, 6\) there, \(6, 4\) here"):
        here.pull(nn.Linear(4, 6, bias=False), [name]).run(within=60)


def test_a_follower_becomes_a_seed_and_its_chain_is_published(here, name):
    first = here.seed(f"{name}-a", sample(number=3))
    middle = sample()
    pull = here.pull(middle, [f"{name}-a"])
    loaded = pull.run(within=30)
    second = Seed(pull._holding, ONE, pull._engine, chain=loaded.chain, promises=loaded.manifest.tensors)
    here.stack.callback(second.close)
    second.publish(here.client(f"{name}-b"), within=20)
    last = sample()
    end = here.pull(last, [f"{name}-b"]).run(within=30)
    assert same(sample(number=3), last)
    assert [origin.seed for origin in end.chain] == [f"{name}-b", f"{name}-a"]
    assert [origin.session for origin in end.chain] == [second.session, first.session]
    assert second.manifest.content == first.manifest.content
    assert f"{CHAIN}1/{name}-a/0" in here.client(f"{name}-b").fetch_weights(0).tensors()


def test_receivers_spread_over_seeds_and_each_has_the_rest_to_fall_back_on(here, name):
    names = [f"{name}-{letter}" for letter in "ab"]
    for each in names:
        here.seed(each, sample(number=2))
    asked = [here.pull(sample(), names, receiver=f"replica-{n}").run(within=30).seeds for n in range(8)]
    assert {seeds[0] for seeds in asked} == set(names) and all(len(seeds) == 1 for seeds in asked)
    loaded = here.pull(sample(), [f"{name}-nobody", names[0]], receiver="x").run(within=30)
    assert loaded.seeds == (names[0],)


def test_only_the_weights_that_were_asked_for_are_taken(here, name):
    old, new = here.seed(f"{name}-old", sample(number=1)), here.seed(f"{name}-new", sample(number=2))
    copy = sample()
    pull = here.pull(copy, [f"{name}-old", f"{name}-new"], expect=new.manifest.content)
    assert pull.run(within=30).manifest.content == new.manifest.content
    assert same(copy, sample(number=2))
    with pytest.raises(NoSeed, match=f"its weights are {old.manifest.content}, and {'0' * 32} were asked for"):
        here.pull(sample(), [f"{name}-old"], expect="0" * 32).run(within=30)


def test_a_seed_whose_bytes_are_no_more_what_it_promised_is_found_out_and_the_next_one_repairs_it(here, name):
    module = sample(number=1)
    here.seed(f"{name}-a", module)
    module.layers["1"].weight.data[3, 4] += 1
    copy = sample()
    pull = here.pull(copy, [f"{name}-a"])
    with pytest.raises(NoSeed, match=r"layers\.1\.weight came with other bytes than were promised"):
        pull.run(within=2 * slowness())
    here.seed(f"{name}-b", sample(number=1))
    again = here.pull(copy, [f"{name}-a", f"{name}-b"], receiver="r1")
    again._sources.order = [f"{name}-a", f"{name}-b"]
    loaded = again.run(within=30)
    assert same(copy, sample(number=1)) and loaded.seeds == (f"{name}-a", f"{name}-b")
    assert [trouble.partition(":")[0] for trouble in loaded.troubles] == [f"{name}-a"]


def test_a_pull_that_failed_goes_on_where_it_was(here, name):
    class Enough(Exception):
        pass

    here.seed(name, sample(number=1))
    copy = sample()
    pull = here.pull(copy, [name], step_bytes=10_000)

    def until_half(progress):
        if progress.done > progress.total / 2:
            raise Enough

    pull._on_progress = until_half
    with pytest.raises(Enough):
        pull.run(within=30)
    pull._on_progress = None
    before = pull._came
    loaded = pull.run(within=30)
    assert same(copy, sample(number=1))
    assert 0 < loaded.bytes <= pull._holding.bytes - before + 18_432, "only what was not whole came again"


def test_a_file_keeps_what_came_and_the_next_process_fetches_the_rest(here, name, tmp_path):
    here.seed(name, sample(number=1))
    before, file = tmp_path / "before", tmp_path / "rank-0.weights"
    first = sample()
    here.pull(first, [name], file=before).run(within=30)
    first.layers["2"].weight.data.zero_()
    # As a killed process leaves it.
    shutil.copy(before, file)
    second = sample()
    loaded = here.pull(second, [name], file=file).run(within=30)
    assert same(second, sample(number=1))
    assert loaded.bytes == second.layers["2"].weight.nbytes and loaded.found == 55_872 - loaded.bytes
    other = tmp_path / "other"
    shutil.copy(before, other)
    with pytest.raises(WeightsError, match="has 55872 bytes, these weights"):
        Holding.into(sample(layers=4), file=other)


def test_a_file_is_of_one_process_at_a_time_so_that_nobody_changes_the_weights_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(holding, "LOCK_SECONDS", 0.0)
    file = tmp_path / "rank-0.weights"
    first = Holding.into(sample(), file=file)
    with pytest.raises(WeightsError, match=f"another process holds its weights in {file}"):
        Holding.into(sample(), file=file)
    first.close()
    assert Holding.into(sample(), file=file).found


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(tmp_path, monkeypatch):
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    file = tmp_path / "rank-0.weights"
    with pytest.raises(WeightsError, match=r"no room for \d+ bytes of weights \(No space left on device\)"):
        Holding.into(sample(), file=file)
    assert file.stat().st_size == 0
    monkeypatch.undo()
    assert Holding.into(sample(), file=file).bytes == 55_872 == file.stat().st_size


def test_weights_stay_where_they_are_for_an_engine_of_this_process(here, name):
    original, copy = sample(number=1), sample(number=2)
    addresses = [parameter.data_ptr() for parameter in (*original.parameters(), *copy.parameters())]
    seed = Seed(Holding.of(original, in_place=True), ONE, here.engine())
    here.stack.callback(seed.close)
    seed.publish(here.client(name), within=20)
    pull = Pull(Holding.of(copy, in_place=True), ONE, here.engine(), here.plane, [name], receiver="r")
    here.stack.callback(pull.close)
    assert pull.run(within=30).verified and same(original, copy)
    assert addresses == [parameter.data_ptr() for parameter in (*original.parameters(), *copy.parameters())]


@REAL
def test_a_session_of_an_earlier_start_is_never_taken_for_the_seed(here, name):
    """The same session and addresses, and other memory behind them: as after a restart at the same port."""
    other = here.engine()
    seed = here.seed(name, sample(number=1), publish=False)
    strange = Segment(2**20)
    base = other.register(strange)
    told = {
        each: (base + 4096 * n if size else 0, numel, size)
        for n, (each, (_, numel, size)) in enumerate(seed.dictionary().items())
    }
    here.client(name).publish_weights(0, other.session, told)
    copy = sample()
    with pytest.raises(NoSeed, match="is not what was published there: its seed started anew"):
        here.pull(copy, [name]).run(within=2 * slowness())


def test_a_seed_that_is_not_there_yet_is_waited_for(here, name):
    copy = sample()
    with pytest.raises(
        NoSeed, match=f"rank 0 has 0 B of 55.9 kB, and no seed gives the rest. {name}: it has not published"
    ):
        here.pull(copy, [name]).run(within=2 * slowness())
    with pytest.raises(WeightsError, match="there is no seed"):
        here.pull(sample(), [])
    with pytest.raises(WeightsError, match="is the name of an instance: name the control plane"):
        Pull(Holding.into(sample()), ONE, here.engine(), None, [name], receiver="r")


def test_an_engine_that_was_lost_is_started_anew_and_published_anew(here, name):
    seed = here.seed(name, sample(number=1))
    client, before = here.client(name), seed.session
    assert seed.tend(client) is False
    seed._engine.close()
    assert seed.tend(client, within=30) is True and seed.session != before
    copy = sample()
    loaded = here.pull(copy, [name]).run(within=30)
    assert same(copy, sample(number=1)) and loaded.session == seed.session


def test_tied_parameters_stay_one_and_those_that_share_memory_otherwise_are_refused():
    tied = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    tied[1].weight = tied[0].weight
    holding = Holding.of(tied)
    assert list(holding.held) == ["0.weight", "0.bias", "1.bias"] and tied[1].weight is tied[0].weight
    on_meta = nn.Sequential(nn.Linear(8, 8, device="meta"), nn.Linear(8, 8, device="meta"))
    on_meta[1].weight = on_meta[0].weight
    Holding.into(on_meta)
    assert on_meta[1].weight is on_meta[0].weight and on_meta[0].weight.device.type == "cpu"
    whole = torch.zeros(10)
    split = nn.ParameterDict({"a": nn.Parameter(whole[:6]), "b": nn.Parameter(whole[5:])})
    with pytest.raises(WeightsError, match="a and b share memory"):
        Holding.of(split)
    with pytest.raises(WeightsError, match="no parameters with elements"):
        Holding.of(nn.ReLU())
