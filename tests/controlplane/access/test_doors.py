"""The bootstrap doors: who may write, read and fetch engine info, against a real process on either kind of database."""

import base64
import json
import socket
import time

import pytest

from controlplane.access import tokens
from tests.cases.ranks import eventually
from tests.wire.client import Answer, Client, engine_info, rank
from tests.wire.raw import Wire, request

TOPOLOGY = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
ELSEWHERE = "127.0.0.2"
NOT_HERE = {"PDCP_READ_NETWORKS": "127.0.0.1/32", "PDCP_REGISTER_NETWORKS": "127.0.0.1/32"}


class From(Wire):
    """A connection from another address of this host."""

    def __init__(self, source: str, port: int) -> None:
        super().__init__(port)
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        return self.send(request(method, path, body, headers)).answer()


def kv(process, instance: str = "a", **headers: str) -> Client:
    return Client(process.kv_port, headers={"X-PD-Instance": instance, **headers})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def make(user, *verbs: str, instance: str = "", seconds: float | None = 3600) -> str:
    expires = None if seconds is None else time.time() + seconds
    return tokens.make("worker", verbs, instance, expires, user)[1]


def writes(process, instance: str = "a", **headers: str) -> list[Answer]:
    """Everything that changes something, once."""
    client = kv(process, instance, **headers)
    engine = Client(process.engine_port, headers=client.headers)
    beat = client("POST", "/pd/v1/heartbeats", js={"worker": "w1"})
    return [client.put(), client.bind(42, 0), engine.publish(tp_rank=0), beat]


def statuses(answers: list[Answer]) -> set[int]:
    return {answer.status for answer in answers}


def test_a_token_opens_what_it_was_made_for_until_it_is_revoked(ann, guarded):
    kept = make(ann, "register", instance="a")
    process = guarded(PDCP_REGISTER_BY="token")
    # One that was there at the start, and one that was made a moment ago.
    assert statuses(writes(process, **bearer(kept))) == {200}
    later = make(ann, "register", "read")
    assert statuses(writes(process, "b", **{"X-PD-Token": later})) == {200}
    for refused in writes(process):
        assert refused.status == 401 and "a token is needed to register here" in refused.text
        assert refused.headers["www-authenticate"] == "Bearer"
    assert statuses(writes(process, **bearer("pdcp_" + "0" * 64))) == {401}
    (other, *_) = writes(process, "b", **bearer(kept))
    assert (other.status, other.text) == (403, "token:worker is for a alone")
    reader = make(ann, "read")
    assert statuses(writes(process, **bearer(reader))) == {403}
    # The same connection, the same bytes: what is remembered of a request is not remembered of its right.
    body = b'{"worker":"w1"}'
    again = request("POST", "/pd/v1/heartbeats", body, {"X-PD-Instance": "a", **bearer(kept)})
    with Wire(process.kv_port) as wire:
        assert [wire.send(again).answer().status for _ in range(3)] == [200] * 3
        assert tokens.revoke(kept[:15], "ann", "lost")
        eventually(lambda: wire.send(again).answer().status == 401)
    process.restart()
    assert statuses(writes(process, **bearer(kept))) == {401}
    assert statuses(writes(process, **bearer(later))) == {200}
    assert not any(token in process.log() for token in (kept, later, reader))


def test_a_token_ends_with_its_time_and_with_the_account_that_made_it(ann, guarded):
    process = guarded(PDCP_REGISTER_BY="token")
    short, long = make(ann, "register", seconds=6), make(ann, "register", seconds=None)
    client = kv(process, **bearer(short))
    eventually(lambda: client.put().status == 200)
    eventually(lambda: client.put().status == 401, within=30)
    assert kv(process, **bearer(long)).put().status == 200
    eventually(lambda: {row.name for row in tokens.listing() if row.last_used_at} == {"worker"}, within=30)
    type(ann).objects.filter(pk=ann.pk).update(is_active=False)
    eventually(lambda: kv(process, **bearer(long)).put().status == 401, within=30)


def test_the_instance_may_still_be_named_by_basic_and_a_token_never_stands_in_the_query(ann, guarded):
    token = make(ann, "register", instance="a")
    process = guarded(PDCP_REGISTER_BY="token")
    named = "Basic " + base64.b64encode(b"a:x").decode()
    client = Client(process.kv_port)
    assert client("PUT", "/route", js=rank(), headers={"Authorization": named, "X-PD-Token": token}).status == 200
    assert client("PUT", "/i/a/route", js=rank(), headers={"Authorization": f"token  {token}"}).status == 200
    for name in ("token", "access_token", "X-PD-Token"):
        assert client("PUT", "/i/a/route", {name: token}, js=rank()).status == 401
    as_password = "Basic " + base64.b64encode(f"a:{token}".encode()).decode()
    assert client("PUT", "/route", js=rank(), headers={"Authorization": as_password}).status == 401


def test_either_asks_outsiders_for_a_token_and_both_asks_everybody(ann, guarded):
    token = make(ann, "register")
    body = b'{"worker":"w1"}'
    for by, inside, outside in (("either", (200, 200), (401, 200)), ("both", (401, 200), (403, 403))):
        process = guarded(PDCP_REGISTER_BY=by, **NOT_HERE)
        for source, expected in (("127.0.0.1", inside), (ELSEWHERE, outside)):
            with From(source, process.kv_port) as wire:
                asked = [wire.ask("POST", "/i/a/pd/v1/heartbeats", body, **h) for h in ({}, bearer(token))]
            assert tuple(answer.status for answer in asked) == expected, (by, source)
            if 403 in expected:
                assert asked[0].text == f"{ELSEWHERE} may not register here (PDCP_REGISTER_NETWORKS)"
        process.kill9()


def test_who_may_not_read_is_not_answered_from_what_others_were_told(ann, guarded):
    process = guarded(**NOT_HERE)
    assert kv(process).put().status == 200
    eventually(lambda: kv(process).topology().status == 200)
    # Three times: the first is remembered, the others are answered from it. Whoever may not read sends the same bytes.
    with From("127.0.0.1", process.kv_port) as near, From(ELSEWHERE, process.kv_port) as far:
        for path, method, body in (
            (f"/i/a{TOPOLOGY}", "GET", b""),
            ("/i/a/health", "GET", b""),
            ("/i/a/query_dp_ranks", "POST", b'{"bootstrap_rooms":[1]}'),
        ):
            for _ in range(3):
                assert near.ask(method, path, body).status == 200
                refused = far.ask(method, path, body)
                assert (refused.status, refused.text) == (403, f"{ELSEWHERE} may not read here (PDCP_READ_NETWORKS)")
        assert far.ask("GET", "/livez").status == 200
    with From(ELSEWHERE, process.engine_port) as far:
        assert (far.ask("GET", "/health").status, far.ask("GET", "/livez").status) == (403, 200)
        assert far.ask("GET", "/get_transfer_engine_info?rank=0").status == 403


def test_engine_info_may_be_read_from_near_or_with_a_token_and_nothing_of_it_outlives_the_token(ann, guarded):
    token = make(ann, "engine-info", instance="a")
    process = guarded(PDCP_ENGINE_INFO_BY="either", **NOT_HERE)
    body = engine_info(tp_rank=0)
    publisher = Client(process.engine_port, headers={"X-PD-Instance": "a"})
    assert publisher("PUT", "/register_transfer_engine_info", js=body).status == 200
    path = "/i/a/get_transfer_engine_info?rank=0"
    with From("127.0.0.1", process.engine_port) as near, From(ELSEWHERE, process.engine_port) as far:
        for _ in range(3):
            assert near.ask("GET", path).status == 200
            refused = far.ask("GET", path)
            assert (refused.status, "a token is needed" in refused.json()["detail"]) == (401, True)
            found = far.ask("GET", path, **bearer(token))
            assert found.json()["remote_instance_transfer_engine_info"][0] == body["transfer_engine_info"]["session_id"]
        assert far.ask("GET", path.replace("/a/", "/b/"), **bearer(token)).status == 403
        assert tokens.revoke(token[:15], "ann", "lost")
        eventually(lambda: far.ask("GET", path, **bearer(token)).status == 401)
        assert near.ask("GET", path).status == 200


HOSTILE = [
    b"Authorization: \xff\xfe\xfd",
    b"Authorization: Bearer",
    b"Authorization: Bearer \xc3\xa9\xf0\x9f\x94\x91",
    b"Authorization: Bearer " + b"pdcp_" * 2000,
    b"Authorization: Bearer pdcp_" + b"0" * 64,
    b"Authorization: Bearer a\r\nAuthorization: Bearer b",
    b"Authorization: Token\t" + b"[" * 500,
    b'Authorization: Digest username="a", nonce=\'"',
    b"Authorization: Basic ====",
    b"Authorization: Basic " + base64.b64encode(b"\x00:\x00"),
    b"Authorization: Basic " + base64.b64encode(b"\xff\xff"),
    b"Authorization: Bearer a\x00b",
    b"X-PD-Token: \x7f",
    b"X-PD-Token: '; DROP TABLE controlplane_machinetoken; --",
    b"X-PD-Token:",
    b"Authorization: Bearer " + b"x" * 1_000_000,
]


def test_a_token_that_is_revoked_while_its_body_is_under_way_publishes_nothing(ann, guarded):
    token = make(ann, "register", instance="a")
    process = guarded(PDCP_REGISTER_BY="token")
    assert statuses(writes(process, **bearer(token))) == {200}
    body = json.dumps(engine_info(tp_rank=1)).encode()
    named = {"X-PD-Instance": "a", "Content-Type": "application/json", **bearer(token)}
    whole = request("PUT", "/register_transfer_engine_info", body, named)
    with Wire(process.engine_port) as wire:
        wire.send(whole[:-10])
        assert tokens.revoke(token[:15], "ann", "lost")
        eventually(lambda: statuses(writes(process, **bearer(token))) == {401})
        assert wire.send(whole[-10:]).answer().status == 401


@pytest.mark.parametrize("by", ["network", "token"])
def test_whatever_stands_in_authorization_is_refused_and_never_a_failure(on_backend, guarded, by):
    process = guarded(PDCP_REGISTER_BY=by, PDCP_ENGINE_INFO_BY=by)
    put = b"PUT /i/a/route HTTP/1.1\r\nhost: x\r\n%b\r\ncontent-length: 2\r\n\r\n{}"
    get = b"GET /i/a/get_transfer_engine_info?rank=0 HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n"
    for header in HOSTILE:
        for port, form in ((process.kv_port, put), (process.engine_port, get)):
            with Wire(port) as wire:
                try:
                    answer = wire.send(form % header).answer()
                except (BrokenPipeError, ConnectionResetError):
                    # Refused before all of it was sent.
                    continue
            assert answer.status in ({401, 400, 431} if by == "token" else {400, 404, 431}), (header[:60], answer)
    assert kv(process).health() in (200, 404)


def test_refusals_are_told_once_and_not_as_often_as_they_happen(ann, guarded):
    from controlplane.ledger.tail import latest

    process = guarded(PDCP_REGISTER_BY="token")
    instance = make(ann, "register")
    eventually(lambda: kv(process, **bearer(instance)).put().status == 200)
    client = Client(process.kv_port, headers={"X-PD-Instance": "a"}, keep=True)
    for number in range(200):
        assert client("PUT", "/route", js=rank(), headers=bearer(f"pdcp_{number:064x}")).status == 401
    client.close()

    def told() -> list[str]:
        return [event.data["sentence"] for event in latest(1000, kinds=["registration.refused"])]

    eventually(lambda: "this token is unknown, was revoked or has expired" in told())
    assert len(told()) <= 3
    assert process.log().count("unknown, was revoked") <= 3
