"""Who may follow what, and that it ends when they may not any more."""

import asyncio

import pytest
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.test import override_settings
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from controlplane.access import revocation, tokens
from controlplane.access.roles import Role, Who
from controlplane.live.notices import Notices
from controlplane.models.access import MachineToken
from tests.controlplane.live.scene import off_the_loop
from tests.support.stream import Reader, Refused, reading

PUBLIC = "https://pd.example.org"
ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


async def outcome(url, headers=None, *, say=None):
    """The type of the first message, or the code that the socket was closed with."""
    async with asyncio.timeout(60):
        async with connect(url, additional_headers=headers, open_timeout=30) as socket:
            try:
                first = await socket.recv()
                if say is None:
                    return "hello" if '"type":"hello"' in first else first
                await socket.send(say)
                while True:
                    await socket.recv()
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else None


@ON_SQLITE
async def test_a_socket_is_for_those_who_may_read_what_they_ask_for(make_web, fleet, token, person, signed_in):
    web = make_web(CSRF_TRUSTED_ORIGINS=PUBLIC, ALLOWED_HOSTS="127.0.0.1,localhost")
    here = web.socket_url
    one = f"{here}?instance=prefill-a"
    vera, stray = signed_in(person("vera", "viewer"), web), signed_in(person("stray"), web)
    unknown = {"Authorization": "Bearer pdcp_" + 64 * "0"}
    bound = token("read", instance="prefill-a")

    def of(headers, **changes):
        return {name: value for name, value in {**headers, **changes}.items() if value is not None}

    cases = [
        (here, None, 4401),
        (here, unknown, 4401),
        # Whoever shows a token is taken at that, whatever cookie comes along.
        (here, {**vera, **unknown}, 4401),
        (here, of(vera, Cookie="sessionid=0"), 4401),
        (here, stray, 4403),
        (here, token("register"), 4403),
        (here, token("read"), "hello"),
        (here, {"X-PD-Token": token("read")["Authorization"].split()[1]}, "hello"),
        (here, vera, "hello"),
        (one, vera, "hello"),
        # Whoever signs people in, in front of us, may have large cookies of its own.
        (here, of(vera, Cookie=f"{vera['Cookie']}; other={9000 * 'x'}"), "hello"),
        (one, bound, "hello"),
        (here, bound, 4403),
        (f"{here}?instance=prefill-b", bound, 4403),
        (f"{here}?instance=nobody-yet", vera, "hello"),
        # Pages of other sites bring our cookies along.
        (here, of(vera, Origin="http://evil.example"), 4403),
        (here, of(vera, Origin="null"), 4403),
        (here, of(vera, Origin=f"http://127.0.0.1:{web.port + 1}"), 4403),
        (here, of(vera, Origin=None), 4403),
        (here, of(vera, Origin=PUBLIC), "hello"),
        (here, of(token("read"), Origin="http://evil.example"), 4403),
        (here, of(vera, Host="evil.example", Origin="http://evil.example"), 4403),
    ]
    for url, headers, expected in cases:
        if headers and "Host" in headers:
            found = await outcome_of_raw_host(web, headers)
        else:
            found = await outcome(url, headers)
        assert found == expected, (url, headers, found)


async def outcome_of_raw_host(web, headers):
    """The client library sends its own Host; a handshake by hand does not."""
    import base64
    import os

    reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET /ws/fleet HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    first, length = await asyncio.wait_for(reader.readexactly(2), 30)
    payload = await asyncio.wait_for(reader.readexactly(length & 127), 30)
    writer.close()
    return int.from_bytes(payload[:2], "big") if first & 15 == 8 else "hello"


@ON_SQLITE
async def test_what_makes_no_sense_is_refused_and_a_token_in_the_query_is_in_no_log(make_web, fleet, token):
    web = make_web()
    headers = token("read")
    secret = headers["Authorization"].split()[1]
    for query in (
        "after=7",
        "after=",
        "after=a:1&after=a:2",
        "instance=..%2F",
        "instance=",
        "since=a:1",
        f"token={secret}",
        f"access_token={secret}&after=a:1",
        "after=" + "a" * 2000,
    ):
        assert await outcome(f"{web.socket_url}?{query}", headers) == 4400, query
    assert await outcome(f"{web.url.replace('http', 'ws')}/ws/other?token={secret}", headers) == 4404
    assert await outcome(web.socket_url, headers, say="hello?") == 4400
    assert secret not in web.log()


async def ends_with(reader, code, within=60):
    """Its socket is closed with this code; the time is the bar, not what is usual."""
    with pytest.raises(ExceptionGroup) as refused:
        async with asyncio.timeout(within), reading(reader):
            await asyncio.Event().wait()
    (problem,) = refused.value.exceptions
    assert isinstance(problem, Refused)
    assert problem.code == code


async def test_a_socket_ends_with_its_token_its_session_or_its_role_and_others_stay(
    make_web, fleet, token, person, signed_in
):
    web = make_web()
    olga, rita, vera = (person(name, "viewer") for name in ("olga", "rita", "vera"))
    ada = person("ada", "operator", "viewer")
    pages = {user.username: signed_in(user, web) for user in (olga, rita, vera, ada)}
    lost, signed_out, demoted, still_reads, stays = (
        Reader(web.socket_url, headers=headers)
        for headers in (token("read", name="lost"), pages["olga"], pages["rita"], pages["ada"], pages["vera"])
    )

    @off_the_loop
    def take_it_away():
        tokens.revoke(MachineToken.objects.get(name="lost").token_key, "vera", "lost")
        Session.objects.filter(session_key=pages["olga"]["Cookie"].partition("=")[2]).delete()
        rita.groups.clear()
        ada.groups.remove(Group.objects.get(name="operator"))

    async with reading(stays, still_reads):
        ends = [
            asyncio.create_task(ends_with(reader, code))
            for reader, code in ((lost, 4401), (signed_out, 4401), (demoted, 4403))
        ]
        for reader in (lost, signed_out, demoted, still_reads, stays):
            await reader.upto(0)
        take_it_away()
        await asyncio.gather(*ends)
        assert (stays.connections, still_reads.connections) == (1, 1)


async def test_notices_over_redis_are_heard_and_heard_again_when_redis_is_back(redis):
    heard = asyncio.Event()
    layers = {"default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [redis.url]}}}
    ann, bob = Who("ann", Role.VIEWER, key="s1"), Who("token:bob", via="token", key="t1")
    with override_settings(CHANNEL_LAYERS=layers):
        notices = Notices(heard.set)
        notices.add(revocation.groups_of(ann))
        listening = asyncio.create_task(notices.run())

        async def said(say, *about):
            """Until it is heard: nobody can see from here when the channel has joined its groups."""
            heard.clear()
            async with asyncio.timeout(60):
                while not heard.is_set():
                    await asyncio.to_thread(say, *about)
                    await asyncio.sleep(0.05)

        try:
            await said(revocation.say_user_changed, "ann")
            await said(revocation.say_session_ended, "s1")
            notices.add(revocation.groups_of(bob))
            await said(revocation.say_token_changed, "t1")
            redis.kill9()
            await asyncio.to_thread(revocation.say_user_changed, "ann")
            redis.start()
            await said(revocation.say_user_changed, "ann")
        finally:
            listening.cancel()


@ON_SQLITE
async def test_when_all_places_are_taken_the_next_is_told_so_and_gets_one_that_was_left(make_web, fleet, token):
    web = make_web(PDCP_SOCKET_LIMIT=4)
    readers = [Reader(web.socket_url, headers=token("read")) for _ in range(4)]
    greedy = token("read")
    async with reading(*readers[:1]):
        await readers[0].upto(0)
        async with (
            connect(web.socket_url, additional_headers=greedy) as one,
            connect(web.socket_url, additional_headers=greedy) as other,
        ):
            await one.recv()
            await other.recv()
            # Half of all places is the most that one of them gets.
            assert await outcome(web.socket_url, greedy) == 4429
            async with reading(readers[1]):
                await readers[1].upto(0)
                assert await outcome(web.socket_url, token("read")) == 4429
        async with reading(*readers[2:]):
            for reader in readers[2:]:
                await reader.upto(0)
