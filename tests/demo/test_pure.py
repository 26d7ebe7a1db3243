"""The demo without its processes: what it is told, whom it chooses, in which order it breaks things, and what ports it takes."""

import asyncio
import doctest
import os
import socket

import pytest

from controlplane.domain import fleetstate
from demo import choosing, settings
from demo.acts import MADE, Act, nothing
from demo.api import Away
from demo.chaos import Chaos
from demo.choosing import Breakers, Pair, pairs
from demo.places import Taken, choose_directory, choose_ports
from demo.plan import ACTS, AGENTS, DECODES, PORTS, PREFILL, Plan
from demo.settings import read
from demo.stage import Unseen
from tests.support.ports import free_port


@pytest.mark.parametrize("module", [choosing, settings])
def test_examples_hold(module):
    assert doctest.testmod(module).failed == 0


def test_every_act_that_can_be_named_can_be_played():
    assert set(ACTS) == set(MADE)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--rate", "0"], "--rate must be between"),
        (["--seconds", "0"], "--seconds must be between"),
        (["--ports", "80"], "--ports must be 0, or between"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--calm", "-1"], "--calm must be between"),
        (["--acts", "flood"], "--acts: there is no flood"),
    ],
)
def test_wrong_words_are_refused_with_the_option(words, why, capsys):
    with pytest.raises(SystemExit) as end:
        read(words)
    assert end.value.code == 2 and why in capsys.readouterr().err


def test_chaos_ends_by_itself_and_a_demo_does_not():
    assert (read([]).seconds, read(["--chaos"]).seconds, read(["--chaos", "--seconds", "60"]).seconds) == (
        None,
        300,
        60,
    )


def state(**changed) -> fleetstate.State:
    """One prefill that serves, two decodes, and what is changed of them by name."""
    launch = {"role": "current", "complete": True}
    made = {name: {**fleetstate.newcomer(), "engine_url": f"http://{name}"} for name in AGENTS}
    made[PREFILL] |= {"launches": {"1": launch}, "debt": None}
    for name in DECODES:
        made[name]["role"] = "decode"
    for name, more in changed.items():
        made[name.replace("_", "-")] |= more
    return {**fleetstate.empty(), "instances": made}


def test_requests_go_to_every_pair_that_may_have_them():
    assert pairs(state(), AGENTS) == [Pair(PREFILL, name) for name in DECODES]
    assert pairs(state(decode_a={"intent": "draining"}), AGENTS) == [Pair(PREFILL, "decode-b")]
    assert pairs(state(decode_b={"engine": {"state": "down", "why": ""}}), AGENTS) == [Pair(PREFILL, "decode-a")]
    assert pairs(state(prefill_a={"debt": {"since": 1.0}}), AGENTS) == []
    assert pairs(state(prefill_a={"launches": {"1": {"role": "current", "complete": False}}}), AGENTS) == []
    assert pairs(state(prefill_a={"launches": {}}), AGENTS) == []
    assert pairs(fleetstate.empty(), AGENTS) == []


def test_an_open_breaker_keeps_requests_away_until_one_may_try():
    breakers, both = Breakers(), [Pair(PREFILL, name) for name in DECODES]
    for _ in range(2):
        breakers.judge("decode-a", ok=False, now=10.0)
    breakers.judge("decode-a", ok=True, now=10.0)
    for moment in (11.0, 12.0, 13.0):
        assert breakers.let_through(both, moment) == both
        breakers.judge("decode-a", ok=False, now=moment)
    assert breakers.let_through(both, 13.5) == [Pair(PREFILL, "decode-b")]
    assert breakers.let_through(both, 16.5) == both
    breakers.judge("decode-a", ok=False, now=16.5)
    assert breakers.let_through(both, 17.0) == [Pair(PREFILL, "decode-b")], "one more failure shuts it again"


def test_ports_that_are_taken_are_named_with_their_holder_and_any_free_ones_are_found():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(Taken, match=rf"port {port} is taken by .*; stop that, or choose others: make demo PORTS="):
            choose_ports(port)
    found = choose_ports(0)
    assert list(found) == list(PORTS) and sorted(found.values()) == list(found.values())


def test_a_directory_holds_one_demo(tmp_path):
    directory, lock = choose_directory(tmp_path / "demo")
    assert directory == tmp_path / "demo" and lock > 0
    with pytest.raises(Taken, match="another demo runs in"):
        choose_directory(tmp_path / "demo")
    os.close(lock)


def test_no_knob_of_the_shell_reaches_the_demo(tmp_path):
    ports = dict.fromkeys(PORTS, free_port())
    plan = Plan(base=tmp_path, data=tmp_path / "data", ports=ports, token=tmp_path / "token", weights="zmq")
    given = {"DATABASE_URL": "postgres://production", "PDCP_KV_PORT": "8998", "PD_LAUNCH_TOKEN": "x", "HOME": "/h"}
    env = plan.env(given)
    assert not {"DATABASE_URL", "PD_LAUNCH_TOKEN"} & set(env) and env["HOME"] == "/h"
    assert env["PDCP_KV_PORT"] == str(ports["kv"]) and env["PDCP_DATA_DIR"] == str(tmp_path / "data")
    assert env["PDCP_ENV_FILE"] == "/dev/null"


class Said:
    """A stage that never gets tired of looking, and what was done on it."""

    class plan:
        web = "http://demo"

    def __init__(self) -> None:
        self.done: list[str] = []

    async def until(self, look, *, within: float) -> str:
        said = await look()
        if said is None:
            raise Unseen(f"nothing of it was seen within {within:g} s")
        return said


def chaos(stage: Said, seed: int = 7, acts=ACTS, say=lambda line: None) -> Chaos:
    return Chaos(stage, acts=acts, seed=seed, say=say, linger=at_once)  # type: ignore[arg-type]


async def at_once(key: str, act: Act) -> None:
    """Nobody looks."""


def test_the_order_follows_from_the_seed_and_every_round_has_every_act():
    one, same, other = chaos(Said()), chaos(Said()), chaos(Said(), seed=8)
    rounds = [one.order() for _ in range(3)]
    assert rounds == [same.order() for _ in range(3)] and rounds[0] != rounds[1]
    assert other.order() != rounds[0] and sorted(rounds[2]) == sorted(ACTS)


@pytest.mark.parametrize("seen", ["it is gone", None])
def test_what_was_broken_is_mended_whether_it_was_seen_or_not(seen, monkeypatch):
    stage, lines = Said(), []

    async def begin() -> None:
        stage.done.append("broken")

    async def mend() -> None:
        stage.done.append("mended")

    async def look() -> str | None:
        return seen

    async def well() -> str | None:
        return "all is well"

    monkeypatch.setitem(MADE, "a", lambda _: Act("something breaks", "/here/", begin, look, mend, well))
    played = chaos(stage, acts=("a",), say=lines.append)
    asyncio.run(played.play("a"))
    assert stage.done == ["broken", "mended"] and played.tale.healed == ["a"]
    assert "something breaks" in lines[0] and "http://demo/here/" in lines[0]
    assert bool(played.tale.wrong) == (seen is None)


def test_what_cannot_be_mended_is_told_and_the_next_act_begins(monkeypatch):
    async def away() -> None:
        raise Away(0, "GET fleet: nobody answers")

    async def look() -> str | None:
        return "seen"

    monkeypatch.setitem(MADE, "a", lambda _: Act("something breaks", "/", nothing, look, away, look))
    played = chaos(Said(), acts=("a",))
    asyncio.run(played.play("a"))
    assert played.tale.wrong == ["a: GET fleet: nobody answers"] and played.tale.healed == []
