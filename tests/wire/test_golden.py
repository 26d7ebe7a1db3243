"""All that SGLang's own servers were recorded to say, asked of ours: equal, or different for a stated reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.client import Client
from tests.wire.conftest import Server, serving
from tests.wire.differences import BY_RULE, DIFFERENCES, REASONS
from tests.wire.replay import EXCHANGES, GROUPS, equals, replay

# Long enough for a busy machine to ask for a room within its life.
ROOM_LIFE = 5.0
# Groups that ask before anybody has registered: there the instance without a name matters most.
UNNAMED = ("topology-1x1x1x1", "get-parameters", "rooms", "engine-normal")


@pytest.fixture(scope="module")
def tenants(sqlite_template: Path) -> Iterator[Server]:
    """One process that has an instance for every group."""
    with serving(sqlite_template, *GROUPS, PDCP_PROBE_NETWORKS="none", PDCP_ROOM_TTL_SECONDS=ROOM_LIFE) as started:
        yield started


def check(group: str, client: Client) -> None:
    """Replay one group; every exchange is equal or differs as listed, never otherwise."""
    wrong = []
    for exchange, answer in replay(group, client, room_life=ROOM_LIFE):
        name = exchange["name"]
        listed = DIFFERENCES.get(name)
        if equals(exchange, answer):
            if listed is not None:
                wrong.append(f"{name} is listed as different, but equal")
        elif listed is None:
            wrong.append(f"{name}: recorded {exchange['response']}, answered {answer}")
        elif not listed.matches(answer.status, answer.content_type, answer.text):
            wrong.append(f"{name}: listed {listed}, answered {answer}")
        if answer.status >= 500:
            documented = answer.text.startswith("Prefill server not fully registered yet")
            if not (answer.status == 503 and documented and exchange["request"]["path"] == "/route"):
                wrong.append(f"{name}: {answer} is no documented answer")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("group", GROUPS)
def test_the_recorded_exchanges_of_a_group_come_out_right(group, tenants: Server):
    server = GROUPS[group][0]["server"]
    client = tenants.kv(group) if server == "kv" else tenants.engine(group)
    # A decode that polls and has not noticed yet keeps a flush from ending between two requests.
    decode = tenants.kv(group, keep=True)
    assert decode.health() == 200
    check(group, client)
    decode.close()


@pytest.mark.parametrize("group", UNNAMED)
def test_they_come_out_right_on_a_fresh_process_that_knows_no_instance(group, serve):
    fresh = serve(PDCP_PROBE_NETWORKS="none")
    check(group, fresh.kv() if GROUPS[group][0]["server"] == "kv" else fresh.engine())


def test_every_recorded_exchange_is_replayed():
    assert len(EXCHANGES) == 310
    assert sum(map(len, GROUPS.values())) == 310
    assert len({exchange["name"] for exchange in EXCHANGES}) == 310


def test_every_listed_difference_is_an_exchange_and_has_a_reason():
    assert DIFFERENCES.keys() - {exchange["name"] for exchange in EXCHANGES} == set()
    assert all(difference.reason in REASONS for difference in DIFFERENCES.values())
    assert sum(len(answers) for _, _, answers in BY_RULE) == len(DIFFERENCES), "an exchange is listed twice"
    assert {difference.reason for difference in DIFFERENCES.values()} == set(REASONS)
