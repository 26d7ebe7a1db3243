"""Engines that know nothing of us: SGLang's own servers are read, and what they tell is shown and served here."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.cases.ranks import eventually, fleet
from tests.compat.conftest import SGLang, Target
from tests.doubles.engine import Engine
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, manage

GENEROUS_SECONDS = 30.0


@pytest.fixture
def bootstrap(backend: Backend, make_bootstrap: Any) -> Bootstrap:
    return make_bootstrap(backend, PDCP_PROBE_INTERVAL_SECONDS=0.5).start()


def observe(bootstrap: Bootstrap, name: str, *arguments: str) -> None:
    done = manage("instances", "add", name, *arguments, env=bootstrap.env)
    assert done.returncode == 0, done.stderr


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def look_up(bootstrap: Bootstrap, name: str, slot: str) -> tuple[int, Any]:
    names = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
    asked = dict(zip(names, slot.split("."), strict=True))
    answer = httpx.get(f"{bootstrap.kv_url}/i/{name}/route", params=asked, trust_env=False)
    return answer.status_code, answer.json() if answer.status_code == 200 else answer.text


def answered(bootstrap: Bootstrap, name: str, slots: list[str]) -> dict[str, int]:
    return {
        slot: told["rank_port"] for slot in slots for status, told in [look_up(bootstrap, name, slot)] if status == 200
    }


def serves(bootstrap: Bootstrap, name: str, addresses: dict[str, int]) -> None:
    eventually(lambda: answered(bootstrap, name, list(addresses)) == addresses, within=GENEROUS_SECONDS)


def shown(backend: Backend, name: str) -> Any:
    return fleet(backend, name)


def is_in(backend: Backend, name: str, state: str) -> Any:
    def there() -> Any:
        found = shown(backend, name)
        heard = found["observation"]
        return found if heard and heard["state"] == state else None

    return eventually(there, within=GENEROUS_SECONDS)


@pytest.mark.timeout(240)
def test_a_real_prefill_is_observed_from_its_first_rank_over_a_restart_to_its_death(
    bootstrap: Bootstrap, backend: Backend, sglang_servers: Target, sglang: SGLang
) -> None:
    sglang_servers.start()
    observe(bootstrap, "seen", "--observe", url(sglang_servers.kv_port))
    sglang.open("observed", port=sglang_servers.kv_port, shape={"dp": 2, "tp": 2}, again={"tp": 2})
    filling = eventually(
        lambda: (f := is_in(backend, "seen", "filling"))["observation"]["registered"] == 3 and f,
        within=GENEROUS_SECONDS,
    )
    assert "not all of its ranks have registered: 3" in filling["observation"]["sentence"]
    assert (filling["knowledge"], filling["serving"]) == ("observed", False)

    first = sglang.go_on()
    serves(bootstrap, "seen", first)
    launch = eventually(lambda: shown(backend, "seen")["serving"] and shown(backend, "seen")["launch"])
    assert (launch["topology"], launch["registered"]) == ({"dp": 2, "cp": 1, "tp": 2, "pp": 1}, 4)
    assert launch["facts"]["page_size"] == 64

    # A decode that asks us is told what SGLang's own server tells.
    theirs = httpx.get(f"{url(sglang_servers.kv_port)}/route", params=ALL, trust_env=False).json()
    ours = httpx.get(f"{bootstrap.kv_url}/i/seen/route", params=ALL, trust_env=False).json()
    assert ours == theirs

    # Nobody else may say who is in it.
    refused = httpx.put(f"{bootstrap.kv_url}/i/seen/route", json=PUT, trust_env=False)
    assert refused.status_code == 409 and "seen is observed" in refused.text

    # Restarted with another topology, on the same port of its server.
    sglang_servers.stop()
    sglang.go_on()
    is_in(backend, "seen", "refused")
    sglang_servers.start()
    second = sglang.go_on()
    serves(bootstrap, "seen", second)
    after = eventually(lambda: shown(backend, "seen")["serving"] and shown(backend, "seen")["launch"])
    assert after["topology"] == {"dp": 1, "cp": 1, "tp": 2, "pp": 1} and after["number"] > launch["number"]
    assert after["registered"] == 2
    assert look_up(bootstrap, "seen", "1.0.0.0")[0] == 404

    # Death.
    sglang_servers.stop()
    sglang.go_on()
    gone = is_in(backend, "seen", "refused")
    assert "nobody listens there" in gone["observation"]["sentence"]
    eventually(lambda: not answered(bootstrap, "seen", list(second)), within=GENEROUS_SECONDS)
    eventually(lambda: shown(backend, "seen")["registered"] == 0, within=GENEROUS_SECONDS)
    told = manage("explain", "seen", env=bootstrap.env).stdout
    assert "It is observed" in told and "refuses connections" in told
    kinds = [e["kind"] for e in events(bootstrap, "seen")]
    assert kinds.count("observation.turned") >= 5


def test_a_rank_that_the_original_counts_twice_does_not_make_an_instance_complete(
    bootstrap: Bootstrap, backend: Backend, sglang_servers: Target, sglang: SGLang
) -> None:
    sglang_servers.start()
    observe(bootstrap, "seen", "--observe", url(sglang_servers.kv_port))
    half = sglang.open("observed_double_count", port=sglang_servers.kv_port)
    assert list(half) == ["0.0.0.0"]
    theirs = httpx.get(f"{url(sglang_servers.kv_port)}/route", params=ALL, trust_env=False)
    assert theirs.status_code == 200, "the known bug of the original"
    found = eventually(lambda: (f := shown(backend, "seen"))["registered"] == 1 and f, within=GENEROUS_SECONDS)
    assert (found["expected"], found["missing"], found["complete"]) == (2, ["dp0.cp0.tp1.pp0"], False)
    assert look_up(bootstrap, "seen", "0.0.0.0")[0] == 503

    serves(bootstrap, "seen", sglang.go_on())


def test_re_registering_an_observed_instance_reads_it_anew(
    bootstrap: Bootstrap, backend: Backend, sglang_servers: Target, sglang: SGLang
) -> None:
    sglang_servers.start()
    observe(bootstrap, "seen", "--observe", url(sglang_servers.kv_port))
    sglang.open("observed", port=sglang_servers.kv_port, shape={"tp": 2}, again={"tp": 2})
    addresses = sglang.go_on()
    serves(bootstrap, "seen", addresses)
    assert manage("evict", "seen", "--slot", "tp1", env=bootstrap.env).returncode == 0
    asked = manage("reregister", "seen", env=bootstrap.env)
    assert asked.returncode == 0 and "was read anew at its own servers" in asked.stdout, asked.stdout + asked.stderr
    assert shown(backend, "seen")["registered"] == 2

    sglang_servers.stop()
    asked = manage("reregister", "seen", env=bootstrap.env)
    assert asked.returncode != 0 and "refuses connections" in asked.stdout + asked.stderr


def test_weights_of_a_real_seed_that_knows_nothing_of_us_are_served_exactly(
    bootstrap: Bootstrap, backend: Backend, sglang_servers: Target, sglang: SGLang
) -> None:
    sglang_servers.start()
    observe(bootstrap, "seed", "--role", "seed", "--observe-info", url(sglang_servers.engine_port))
    wanted = sglang.open("weights", engine_port=sglang_servers.engine_port)["wanted"]

    def published() -> bool:
        return shown(backend, "seed")["engine_info"]["sessions"] == len(wanted)

    eventually(published, within=GENEROUS_SECONDS)
    for rank, info in wanted.items():
        path = f"{bootstrap.engine_url}/i/seed/get_transfer_engine_info?rank={rank}"
        answer = httpx.get(path, trust_env=False).json()
        assert answer["remote_instance_transfer_engine_info"] == info
    refused = httpx.put(
        f"{bootstrap.engine_url}/i/seed/register_transfer_engine_info",
        json={"rank": 0, "transfer_engine_info": {"session_id": "127.0.0.1:1", "weights_info_dict": {}}},
        trust_env=False,
    )
    assert refused.status_code == 409 and "is observed" in refused.text


def test_an_engine_that_starts_again_on_the_same_addresses_is_another_launch(
    bootstrap: Bootstrap, backend: Backend, sglang_servers: Target, sglang: SGLang
) -> None:
    sglang_servers.start()
    engine = Engine("prefill").start()
    try:
        observe(bootstrap, "seen", "--observe", url(sglang_servers.kv_port), "--engine-url", engine.url)
        sglang.open("observed", port=sglang_servers.kv_port, shape={"tp": 2}, again={"tp": 2})
        addresses = sglang.go_on()
        serves(bootstrap, "seen", addresses)
        first = shown(backend, "seen")["launch"]
        assert first["token"].startswith("start-")
        engine.started_at += 100
        later = eventually(
            lambda: (f := shown(backend, "seen"))["launch"]["number"] != first["number"] and f["launch"],
            within=GENEROUS_SECONDS,
        )
        assert later["token"] not in ("", first["token"])
        serves(bootstrap, "seen", addresses)
        # Our own restart is none of theirs.
        bootstrap.restart()
        serves(bootstrap, "seen", addresses)
        eventually(lambda: shown(backend, "seen")["serving"])
        assert shown(backend, "seen")["launch"]["number"] == later["number"]
    finally:
        engine.stop()


def test_a_decode_is_known_by_what_its_engine_says(bootstrap: Bootstrap, backend: Backend) -> None:
    engine = Engine("decode").start()
    try:
        observe(bootstrap, "reader", "--role", "decode", "--observe", engine.url)
        found = is_in(backend, "reader", "listed")
        said = found["observation"]["said"]
        assert (said["mode"], said["tp_size"], said["page_size"]) == ("decode", 1, 64)
        assert "kv_cache_dtype" not in said, "what auto became is not known"
        assert found["engine_url"] == engine.url, "asked for its load at the same place"
    finally:
        engine.stop()
    is_in(backend, "reader", "refused")


def events(bootstrap: Bootstrap, name: str) -> list[Any]:
    done = manage("events", "--instance", name, "--limit", "500", "--json", env=bootstrap.env)
    return list(json.loads(done.stdout))


ALL = {"prefill_dp_rank": -1, "prefill_cp_rank": -1, "target_tp_rank": -1, "target_pp_rank": -1}
PUT = {
    "attn_tp_size": 1,
    "attn_tp_rank": 0,
    "attn_cp_size": 1,
    "attn_cp_rank": 0,
    "attn_dp_size": 1,
    "attn_dp_rank": 0,
    "pp_size": 1,
    "pp_rank": 0,
    "system_dp_size": 1,
    "system_dp_rank": 0,
    "rank_ip": "127.0.0.1",
    "rank_port": 4001,
    "page_size": 64,
    "kv_cache_dtype": "auto",
}
