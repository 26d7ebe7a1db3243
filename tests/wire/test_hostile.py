"""Input that no worker sends: never an undocumented 5xx, never a page, nothing stored, and the log stays readable."""

import json
import random
import re
import string
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.wire.client import ALL, Answer, Client, at, basic, engine_info, rank
from tests.wire.conftest import Server
from tests.wire.operators import rows
from tests.wire.raw import HungUp, ask, request

FUZZ = settings(
    max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

BYTES = st.binary(max_size=300)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=40)
    | st.sampled_from(["0", "-1", " 1 ", "1_0", "٣", "None", "10.0.0.1", "\x00", "\ud800", "a" * 70_000, 2**63, 2**64])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from([*sorted(rank()), "kv_layout", "dsv41_spec_layout", "enable_kv_cache_sharding", "unknown"])
PATHS = st.sampled_from(
    [
        "/route",
        "/register_dp_rank",
        "/query_dp_ranks",
        "/health",
        "/pd/v1/heartbeats",
        "/i/x/route",
        "/i//route",
        "/livez",
    ]
)
ENGINE_PATHS = st.sampled_from(["/register_transfer_engine_info", "/get_transfer_engine_info", "/health", "/readyz"])
METHODS = st.sampled_from(["GET", "PUT", "POST", "HEAD", "DELETE", "PATCH", "OPTIONS"])


def check(answer: Answer) -> None:
    """What holds for every answer, whatever was asked."""
    waiting = "Prefill server not fully registered yet" in answer.text or "not ready" in answer.text
    assert answer.status < 500 or (answer.status == 503 and (waiting or not answer.body)), answer
    assert "html" not in (answer.content_type or "")
    assert "Traceback" not in answer.text
    assert len(answer.body) < 5000, "an answer to nonsense is a sentence"


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def kv(server: Server) -> Client:
    return server.kv("fuzzed")


@pytest.fixture(scope="module")
def engine(server: Server) -> Client:
    return server.engine("fuzzed")


# --- Fuzz ----------------------------------------------------------------------------------------------------


@FUZZ
@given(method=METHODS, path=PATHS, body=BYTES | VALUES.map(dumped))
def test_any_body_on_any_path_of_the_kv_wire(kv: Client, method, path, body):
    check(kv(method, path, body=body))


@FUZZ
@given(method=METHODS, path=ENGINE_PATHS, body=BYTES | VALUES.map(dumped))
@example(method="PUT", path="/register_transfer_engine_info", body=b'"\\ud800"')
@example(method="PUT", path="/register_transfer_engine_info", body='["\\ud800"]'.encode("utf-16"))
@example(method="PUT", path="/register_transfer_engine_info", body=b"1" * 4_401)
def test_any_body_on_any_path_of_the_engine_wire(engine: Client, method, path, body):
    check(engine(method, path, body=body))


@FUZZ
@given(changes=st.dictionaries(FIELDS, VALUES, max_size=3), gone=st.sets(FIELDS, max_size=2))
def test_any_field_of_a_registration(server: Server, changes, gone):
    body = {key: value for key, value in {**rank(), **changes}.items() if key not in gone}
    check(server.kv("fields")("PUT", "/route", js=body))
    check(server.kv("fields").topology())


@FUZZ
@given(room=VALUES, dp=VALUES, rooms=VALUES)
def test_any_room_and_any_list_of_rooms(kv: Client, room, dp, rooms):
    check(kv.bind(room, dp))
    check(kv("POST", "/query_dp_ranks", js={"bootstrap_rooms": rooms}))


@FUZZ
@given(session=VALUES, weights=VALUES | st.dictionaries(st.text(max_size=20), VALUES, max_size=3), ranks=VALUES)
def test_any_engine_info(engine: Client, session, weights, ranks):
    check(engine.publish(session=session, weights=weights, tp_rank=ranks))
    check(engine.publish(session=session, weights=weights, rank=ranks, tp_rank=0))


@FUZZ
@given(query=st.text(alphabet=string.printable, max_size=80), values=st.lists(SCALARS, min_size=4, max_size=4))
def test_any_query(kv: Client, engine: Client, query, values):
    safe = "".join(c if c in string.ascii_letters + string.digits + "=&%+;" else quote(c) for c in query)
    shown = [quote(str(value)[:3000].encode("utf-8", "surrogatepass")) for value in values]
    check(kv("GET", "/route", safe))
    check(kv("GET", "/route", "&".join(f"{name}={value}" for name, value in zip(ALL, shown, strict=True))))
    check(engine("GET", "/get_transfer_engine_info", safe))
    check(engine("GET", "/get_transfer_engine_info", f"rank={shown[0]}"))


@FUZZ
@given(name=st.binary(max_size=60), token=st.binary(max_size=60), scheme=st.binary(max_size=60))
def test_any_header_that_names_something(server: Server, name, token, scheme):
    def clean(value: bytes) -> str:
        return value.replace(b"\r", b"").replace(b"\n", b"").decode("latin-1")

    body = dumped(rank())
    headers = {"X-PD-Instance": clean(name), "X-PD-Generation": clean(token), "Authorization": "Basic " + clean(scheme)}
    for method, sent in (("PUT", body), ("GET", b"")):
        try:
            answer = ask(server.process.kv_port, request(method, "/route", sent, headers))
        except HungUp as hung:
            raise AssertionError(f"no answer to {headers!r}") from hung
        # Random names make many instances, or none: which of them an unnamed request means is then no answer to give.
        assert answer.status < 500 or answer.status == 503, answer
        assert "html" not in (answer.content_type or "")


# --- Fields --------------------------------------------------------------------------------------------------

UNUSABLE = (
    "0.0.0.0", "::", "0.1.2.3", "224.0.0.1", "ff02::1", "169.254.1.1", "169.254.169.254", "fe80::1", "fe80::1%eth0",
    "255.255.255.255", "fd00:ec2::254", "::ffff:0.0.0.0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "", "None", "null",
    "127.1", "2130706433", "0x7f000001", "0177.0.0.1.5", "10.0.0.1:80", "http://10.0.0.1", "user@10.0.0.1", "10.0.0.1/24",
    "a b", "a\nb", "a\x00b", "[10.0.0.1]", "[::1", "::1]", "x" * 64 + ".org", "x." * 200 + "org", "-a.org", "a..b", "é.org",
)  # fmt: skip


@pytest.mark.parametrize("ip", UNUSABLE, ids=ascii)
def test_a_rank_at_an_address_that_cannot_be_is_refused_and_nothing_is_stored(server: Server, ip):
    client = server.kv("addresses")
    answer = client.put(rank_ip=ip)
    assert (answer.status, answer.text[:8]) == (400, "rank_ip:"), answer
    assert "\n" not in answer.text and "\0" not in answer.text
    assert server.kv("addresses").topology().status in (404, 503)


@pytest.mark.parametrize(
    "facts",
    [
        {"attn_tp_rank": 1},
        {"attn_tp_rank": -1},
        {"attn_tp_size": 0},
        {"attn_tp_size": 10**9},
        {"attn_tp_size": 2**70},
        {"attn_cp_size": 4096, "attn_tp_size": 4096, "pp_size": 4096},
        {"pp_rank": 5},
        {"system_dp_size": 2, "system_dp_rank": 2},
        {"system_dp_size": 0},
        {"attn_dp_size": 2, "attn_dp_rank": 2},
        {"rank_port": 0},
        {"rank_port": 65536},
        {"rank_port": "1" * 5000},
        {"page_size": 0},
        {"page_size": -64},
        {"page_size": 2**64},
        {"prefill_http_port": 0},
        {"prefill_http_port": 65536},
        {"kv_cache_dtype": "x" * 10_000},
        {"kv_cache_dtype": "au\x00to"},
        {"kv_cache_dtype": "auto\n"},
        {"kv_layout": "\x1b[2J"},
        {"load_balance_method": "\u202efollow"},
        {"decode_allocation_policy": "early\x7f"},
        {"dsv41_spec_layout": {"x": "y" * 100_000}},
        {"dsv41_spec_layout": [1]},
    ],
    ids=lambda facts: ascii(facts)[:60],
)
def test_a_field_out_of_range_is_named_and_nothing_is_stored(server: Server, facts):
    answer = server.kv("ranges").put(**facts)
    assert answer.status == 400, answer
    field = next(iter(facts))
    assert field in answer.text or any(axis in answer.text for axis in ("tp ", "cp ", "pp ", "dp ", "topology")), answer
    assert len(answer.text) < 500 and answer.text.isprintable()
    assert rows(server.backend, "SELECT count(*) FROM controlplane_instance WHERE name = 'ranges'") == [(0,)]


def test_nul_and_control_characters_reach_no_table(server: Server, tenant):
    kv, engine = server.kv(tenant), server.engine(tenant)
    assert kv.put().status == 200
    layout = kv.put(rank_port=41001, dsv41_spec_layout={"draft\x00": "x\x00"})
    assert layout.status in (200, 400)
    assert engine.publish(session="10.0.0.1:1\x00", tp_rank=0).status == 400
    assert engine.publish(session="10.0.0.1:1\n", tp_rank=0).status == 400
    assert kv("PUT", "/route", js=rank(), headers={"X-PD-Generation": "a\tb"}).status == 400
    for sql in ("SELECT data FROM controlplane_event", "SELECT facts FROM controlplane_launch"):
        assert not any("\0" in text for (text,) in rows(server.backend, sql))


def test_a_dp_rank_that_no_launch_has_is_refused(server: Server, tenant):
    client = server.kv(tenant)
    for dp in range(2):
        assert client.put(attn_dp_size=2, attn_dp_rank=dp, rank_port=41000 + dp).status == 200
    assert client.bind(42, 1).status == 200
    for dp in (2, 9, -1, 65536, 2**63, "9", 0.5, None, True):
        answer = client.bind(42, dp)
        assert answer.status == 400 and "dp_rank" in answer.text, (dp, answer)
    assert client.find(42).json() == {"42": 1}


def test_rooms_at_the_edges_of_63_bits(server: Server, tenant):
    client = server.kv(tenant)
    assert client.put(attn_dp_size=1).status == 200
    for room in (0, 1, 2**53 + 1, 2**60 - 1, 2**60, 2**62, 2**63 - 1, "0", "7", " 8 ", "0009", "1_0"):
        assert client.bind(room, 0).status == 200, room
    for room in (-1, 2**63, 2**64, 10**40, "-1", "9" * 5000, "", "x", 1.5, 1e300, True, None, [1], {"a": 1}):
        assert client.bind(room, 0).status == 400, room
    edges = [0, 2**53 + 1, 2**60 - 1, 2**60, 2**63 - 1, 7, 8, 9, 10]
    assert client.find(*edges).json() == {str(room): 0 for room in edges}
    assert client.find(-1, 2**63, 2**64, 10**40, 3).json() == {}


def test_of_duplicate_keys_the_last_one_counts_as_in_python(server: Server, tenant):
    kv, engine = server.kv(tenant), server.engine(tenant)
    assert kv.put().status == 200
    assert kv("POST", "/register_dp_rank", body=b'{"bootstrap_room":1,"dp_rank":0,"bootstrap_room":2}').status == 200
    assert kv.find(1, 2).json() == {"2": 0}
    assert kv("POST", "/query_dp_ranks", body=b'{"bootstrap_rooms":[2],"bootstrap_rooms":[1]}').json() == {}
    body = dumped(engine_info(tp_rank=0, weights={"w": [1, 2, 4]})).replace(
        b'"w": [1, 2, 4]', b'"w":[1,2,4],"w":[5,6,2]'
    )
    assert engine("PUT", "/register_transfer_engine_info", body=body).status == 200
    assert engine.weights(0).json()["remote_instance_transfer_engine_info"][1] == {"w": [5, 6, 2]}


@pytest.mark.parametrize(
    "weights",
    [
        [], "x", 5, {"w": []}, {"w": [1, 2]}, {"w": [1, 2, 3, 4]}, {"w": ["1", 2, 3]}, {"w": [1.0, 2, 3]}, {"w": None},
        {"w": [-1, 2, 3]}, {"w": [2**64, 2, 3]}, {"w": [1, 2**200, 3]}, {"w": {"a": 1}}, {"w": [True, 2, 3]},
    ],
    ids=str,
)  # fmt: skip
def test_weights_of_another_shape_are_refused_with_their_field(server: Server, weights):
    answer = server.engine("shapes")(
        "PUT", "/register_transfer_engine_info", js=engine_info(tp_rank=0, weights=weights)
    )
    assert answer.status == 400 and "weights_info_dict" in answer.json()["detail"], answer
    assert server.engine("shapes").weights(0).status == 404


def test_json_nested_beyond_reason_is_refused(server: Server):
    for opening in (b"[", b'{"a":'):
        body = opening * 200_000
        for client, method, path in (
            (server.kv("deep"), "PUT", "/route"),
            (server.kv("deep"), "POST", "/query_dp_ranks"),
            (server.engine("deep"), "PUT", "/register_transfer_engine_info"),
        ):
            assert client(method, path, body=body).status in (400, 422)
    deep = b'{"dsv41_spec_layout":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"," + dumped(rank())[1:]
    check(server.kv("deep")("PUT", "/route", body=deep))


def test_thousands_of_query_parameters_cost_nothing(server: Server, tenant):
    client = server.kv(tenant)
    assert client.put().status == 200
    many = "&".join(f"a{n}={n}" for n in range(5000))
    assert client("GET", "/route", f"{many}&prefill_dp_rank=0").status == 400
    check(server.engine(tenant)("GET", "/get_transfer_engine_info", f"{many}&rank=0"))


# --- The log -------------------------------------------------------------------------------------------------

FORGERY = (
    "\r\n2026-01-01T00:00:00Z [info     ] all is well [controlplane] forged=yes\n\x1b[2J\x1b]0;owned\x07\u2028\u202e"
)


def test_no_input_forges_a_log_line(serve):
    one = serve(LOG_LEVEL="DEBUG", PDCP_PROBE_NETWORKS="none")
    kv, engine = one.kv(), one.engine()
    kv.put()
    kv("PUT", "/route", js=rank(rank_ip=FORGERY))
    kv("PUT", "/route", js=rank(kv_cache_dtype=FORGERY))
    kv("PUT", "/route", js={FORGERY: 1})
    kv("PUT", "/route", js=rank(rank_port=FORGERY))
    kv.bind(FORGERY, FORGERY)
    kv.find(FORGERY)
    engine.publish(session=FORGERY, tp_rank=FORGERY)
    engine.publish(weights={FORGERY: ["x", 1, 2]}, tp_rank=0)
    kv("GET", "/route", {**at(), "prefill_dp_rank": FORGERY})
    kv("GET", "/" + quote(FORGERY))
    kv("GET", f"/i/{quote(FORGERY, safe='')}/route")
    kv("PUT", "/route", js=rank(), headers=basic(FORGERY))
    ask(one.process.kv_port, b"GET /\x1b[2J HTTP/1.1\r\nHost: \x1b[2J\r\nX-PD-Instance: \x1b]0;owned\x07\r\n\r\n")
    log = one.process.log()
    assert "\x1b" not in log and "\x07" not in log and "\u2028" not in log and "\u202e" not in log
    assert not any(re.match(r"2026-01-01T00:00:00Z", line) for line in log.splitlines())
    for where in ("rank.registered", "launch.opened"):
        assert rows(one.backend, "SELECT count(*) FROM controlplane_event WHERE kind = ?", where) == [(1,)]


def test_a_flood_of_nonsense_makes_few_log_lines(serve):
    one = serve(PDCP_PROBE_NETWORKS="none")
    kv, engine = one.kv("x", keep=True), one.engine("x", keep=True)
    random.seed(1)
    began = time.monotonic()
    for n in range(1500):
        kv("PUT", "/route", js=rank(rank_ip=f"bad host {random.random()}"))
        kv.bind(f"room {n}", 0)
        kv("GET", f"/nothing/{n}")
        engine.publish(session="", tp_rank=n)
    for n in range(500):
        ask(one.process.kv_port, b"nonsense %d\r\n\r\n" % n)
    lines = one.process.log().splitlines()
    # OPS-06: a few lines a second and process; the flood takes longer where others work too.
    assert len(lines) < max(150, 5 * (time.monotonic() - began)), lines[:10]
    assert one.kv("x").put().status == 200
