"""Who may use the wires through the web process: the client's own address counts, and its token, here and there again."""

import asyncio
from ipaddress import ip_network

import httpx
import pytest
from django.contrib.auth.models import User

from controlplane.access import tokens
from tests.controlplane.access.conftest import ann, guarded
from tests.controlplane.commands.on_backend import on_backend
from tests.controlplane.web.test_forwards import Recorder, base, raw, row, web

__all__ = ["ann", "guarded", "on_backend"]

HERE, ELSEWHERE = (ip_network("127.0.0.0/8"),), (ip_network("10.0.0.0/8"),)
BEAT = {"worker": "w1"}


async def made(user: User, *verbs: str, instance: str = "") -> str:
    # In a thread of this test's own loop: one that outlives it would keep its connection to an earlier database.
    return (await asyncio.to_thread(tokens.make, "w", verbs, instance, None, user))[1]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


# by, whether the client is near, then the statuses without a token, with a wrong one and with the right one.
WRITES = [
    ("token", True, (401, 401, 200)),
    ("either", True, (200, 200, 200)),
    ("either", False, (401, 401, 200)),
    ("both", True, (401, 401, 200)),
    ("both", False, (403, 403, 403)),
]


async def test_the_gates_of_the_wires_stand_here_too_for_the_client_s_own_address(ann, guarded):
    token, wrong = await made(ann, "register", instance="p"), "pdcp_" + "0" * 64
    # To the bootstrap process everybody who comes through here is near.
    process = guarded(PDCP_REGISTER_BY="either", PDCP_REGISTER_NETWORKS="127.0.0.0/8")
    for by, near, expected in WRITES:
        knobs = {"PDCP_REGISTER_BY": by, "PDCP_REGISTER_NETWORKS": HERE if near else ELSEWHERE}
        async with web(process, **knobs) as address, httpx.AsyncClient(timeout=60) as client:
            url = f"{base(address)}/i/p/pd/v1/heartbeats"
            answers = [await client.post(url, json=BEAT, headers=h) for h in ({}, bearer(wrong), {"x-pd-token": token})]
            assert tuple(answer.status_code for answer in answers) == expected, (by, near)
            for refused in (answer for answer in answers if answer.status_code == 401):
                assert refused.headers["www-authenticate"] == "Bearer"
            if expected[2] == 200 and expected[0] != 200:
                other = await client.post(url.replace("/p/", "/q/"), json=BEAT, headers=bearer(token))
                assert (other.status_code, other.text) == (403, "token:w is for p alone")


async def test_a_token_goes_on_and_is_asked_for_there_again(ann, guarded):
    token = await made(ann, "register")
    process = guarded(PDCP_REGISTER_BY="token")
    async with web(process, PDCP_REGISTER_BY="token") as address, httpx.AsyncClient(timeout=60) as client:
        url = f"{base(address)}/i/p/route"
        assert (await client.put(url, json=row(port=4000), headers=bearer(token))).status_code == 200
        await asyncio.to_thread(tokens.revoke, token[:15], "ann")
        assert (await client.put(url, json=row(port=4000), headers=bearer(token))).status_code == 401
    # Wherever the networks are not looked at here, the bootstrap process still asks.
    async with web(process) as address, httpx.AsyncClient(timeout=60) as client:
        refused = await client.put(f"{base(address)}/i/p/route", json=row(port=4000))
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


async def test_reads_are_for_the_networks_that_may_read_and_engine_info_for_tokens_too(ann, guarded):
    token = await made(ann, "engine-info", instance="p")
    process = guarded()
    knobs = {"PDCP_READ_NETWORKS": ELSEWHERE, "PDCP_ENGINE_INFO_BY": "either"}
    async with web(process, **knobs) as address, httpx.AsyncClient(timeout=60) as client:
        through = f"{base(address)}/i/p"
        for answer in (
            await client.get(f"{through}/route"),
            await client.get(f"{through}/health"),
            await client.post(f"{through}/query_dp_ranks", json={"bootstrap_rooms": [1]}),
            await client.post(f"{through}/pd/v1/resolve", json={"decode": {"tp_size": 1}}),
        ):
            assert (answer.status_code, answer.text) == (403, "127.0.0.1 may not read here (PDCP_READ_NETWORKS)")
        info = f"{through}/get_transfer_engine_info?rank=0"
        without = await client.get(info)
        assert (without.status_code, "a token is needed" in without.json()["detail"]) == (401, True)
        assert (await client.get(info, headers=bearer(token))).status_code == 404
        assert (await client.put(f"{through}/route", json=row(port=4000))).status_code == 200


async def test_only_what_can_be_a_token_of_ours_goes_on():
    good = "pdcp_" + "a" * 64
    shown = {"Bearer sk-someone-elses": None, f"Basic {good}": None, f"Bearer {good}": good, f"token {good}": good}
    async with Recorder() as recorder, web(recorder) as address, httpx.AsyncClient(timeout=60) as client:
        for authorization in shown:
            await client.put(f"{base(address)}/i/p/route", content=b"{}", headers={"authorization": authorization})
        requests = [request for connection in recorder.connections for request in connection]
        assert [request.get("x-pd-token") for request in requests] == list(shown.values())
        assert not any("authorization" in request for request in requests)


@pytest.mark.parametrize("by", ["network", "token"])
async def test_whatever_stands_in_authorization_is_no_failure_here_either(on_backend, guarded, by):
    from tests.controlplane.access.test_doors import HOSTILE

    process = guarded()
    async with web(process, PDCP_REGISTER_BY=by) as address:
        for header in HOSTILE:
            asked = b"PUT /i/p/route HTTP/1.1\r\nhost: x\r\nconnection: close\r\n%b\r\ncontent-length: 2\r\n\r\n{}"
            answer = await raw(address, asked % header)
            status = int(answer.split(b" ", 2)[1])
            assert status in ((401, 400) if by == "token" else (400,)), (header[:60], answer[:300])
