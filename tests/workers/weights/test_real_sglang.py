"""SGLang 0.5.23 itself on the other side: its seeds' dictionaries are pulled from, and its loader loads from our seeds."""

import json
import os
import sys

import pytest
import torch

from tests.compat.conftest import _why_not
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.workers.weights.seeding import same, sample
from workers.weights import NoSeed

MOONCAKE = pytest.mark.parametrize("here", ["mooncake"], indirect=True)


@pytest.fixture(scope="module")
def sglang(tmp_path_factory):
    if missing := _why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    env = clean_env(OMP_NUM_THREADS=1, SGLANG_HOST_IP="127.0.0.1", NO_PROXY="*")
    log = tmp_path_factory.mktemp("sglang") / "log"
    child = Child([sys.executable, "-m", "tests.workers.weights.sglang_side"], env=env, log=log, stdin=True)
    child.wait_for_line("^READY$", timeout=110)

    def ask(word, *arguments):
        heard = len(child.lines)
        child.say(json.dumps([word, *arguments]))
        answer = json.loads(child.wait_for_line(r"^ANSWER (.*)$", timeout=100, after=heard)[1])
        assert "failed" not in answer, answer["failed"] + child.log()[-3000:]
        return answer["said"]

    yield ask
    child.kill9()


@MOONCAKE
def test_sglangs_loader_loads_from_a_seed_of_ours(here, directory, sglang, name):
    here.seed(name, sample(number=4))
    url = f"http://127.0.0.1:{directory.engine_port}/i/{name}"
    assert sglang("load", url, 0, 4) == [True, True]


@MOONCAKE
def test_a_seed_of_sglang_is_pulled_from_and_what_was_verified_of_it_is_said(here, sglang):
    port = free_port()
    session, at = sglang("seed", free_port(), port, 6), f"127.0.0.1:{port}"
    copy = sample()
    pull = here.pull(copy, [at])
    loaded = pull.run(within=60)
    assert same(copy, sample(number=6))
    assert loaded.session == session and not loaded.verified and loaded.seeds == (at,)
    assert loaded.sentence.endswith(
        "; verified by number and size of the elements only: this seed publishes no digests"
    )
    with pytest.raises(NoSeed, match=r"layers\.0\.weight has 9216 elements of 2 bytes there, 9216 of 4 here"):
        here.pull(sample(dtype=torch.float32), [at]).run(within=60)
    with pytest.raises(NoSeed, match="its weights are without digests, and abc were asked for"):
        here.pull(sample(), [at], expect="abc").run(within=60)
