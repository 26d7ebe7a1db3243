"""`python -m workers.weights`: seeds and pulls of several ranks, a follower that becomes a seed, and wrong words."""

import json
import shutil
import signal

import pytest

from tests.support.machine import slowness
from tests.workers.weights.processes import SIZE, Seeding, command
from workers.weights.settings import read


@pytest.fixture
def at(directory):
    return ("--engine-info", f"127.0.0.1:{directory.engine_port}")


def outcomes(child) -> list[dict]:
    return [json.loads(line) for line in child.lines if line.startswith("{")]


def test_a_replica_pulls_four_ranks_becomes_a_seed_and_is_pulled_from(directory, at, name, tmp_path):
    ranks = ("--tp", "2", "--pp", "2", "--backend", "zmq")
    first = Seeding(directory, tmp_path / "seed.log", f"{name}-a", *ranks)
    words = ("--from", f"{name}-a", "--instance", f"{name}-b", "--json", *ranks, *SIZE)
    follower = command(tmp_path / "follower.log", "pull", *at, *words, "--keep", str(tmp_path / "kept"))
    ready = follower.wait_for_line("^seed ready .* content=(.*)$", timeout=100)
    said = outcomes(follower)
    assert [(each["rank"], each["verified"], each["seeds"]) for each in said] == [
        (rank, True, [f"{name}-a"]) for rank in range(4)
    ]
    assert ready[1] == ",".join(each["content"] for each in said) == first.ready().content
    assert "MB (100 %), " in follower.log() or "kB (100 %), " in follower.log()
    # The first seed is gone: the follower has all that is needed.
    assert first.child.terminate() == 0
    last = command(tmp_path / "last.log", "pull", *at, "--from", f"{name}-b", "--json", *ranks, *SIZE)
    assert last.wait(100) == 0, last.log()
    assert [[origin["seed"] for origin in each["chain"]] for each in outcomes(last)] == [[f"{name}-b", f"{name}-a"]] * 4
    last.kill9()
    # Started on files as a killed one leaves them: nothing comes over the network but what proves them.
    shutil.copytree(tmp_path / "kept", tmp_path / "left")
    again = command(tmp_path / "again.log", "pull", *at, "--from", f"{name}-b", "--json", *ranks, *SIZE,
                    "--keep", str(tmp_path / "left"))  # fmt: skip
    assert again.wait(100) == 0, again.log()
    assert {each["bytes"] for each in outcomes(again)} == {0}
    assert all(each["bytes_found"] > 0 and each["verified"] for each in outcomes(again))
    again.kill9()
    assert follower.terminate() == 0


def test_a_pull_without_a_seed_ends_in_time_with_a_sentence(at, tmp_path):
    child = command(tmp_path / "log", "pull", *at, "--from", "nobody", "--timeout", "4", "--backend", "zmq", *SIZE)
    assert child.wait(60 * slowness()) == 1
    assert (
        "error: rank 0 has 0 B of 3.15 MB, and no seed gives the rest. nobody: it has not published rank 0."
        in child.log()
    )
    child.kill9()


def test_ctrl_c_ends_a_pull_at_once(at, tmp_path):
    child = command(tmp_path / "log", "pull", *at, "--from", "nobody", "--backend", "zmq", *SIZE)
    child.wait_for_line("^pulling ", timeout=100)
    child._process.send_signal(signal.SIGINT)
    assert child.wait(30) == 130
    child.kill9()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["seed", "--host", "127.0.0.1"], "--engine-info and --instance are needed"),
        (["pull", "--from", "a", "--tp", "0", "--host", "127.0.0.1"], "--tp must be at least 1"),
        (["pull", "--from", "a", "--ranks", "0,2", "--tp", "2"], "--ranks must be numbers from 0 to 1"),
        (["pull", "--from", "a", "--timeout", "0"], "--timeout must be between 0 and 86400 seconds"),
        (["seed", "--engine-info", "[::1", "--instance", "a"], "is not an IPv6 address in brackets"),
        (
            ["seed", "--engine-info", "h:1", "--instance", "a", "--token-file", "/nowhere"],
            "--token-file cannot be read",
        ),
    ],
)
def test_wrong_words_are_a_sentence_and_exit_code_2(words, why, capsys):
    with pytest.raises(SystemExit) as left:
        read(words)
    assert left.value.code == 2
    assert why in capsys.readouterr().err
