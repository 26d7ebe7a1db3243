"""How the API says no: always a problem document, whatever was sent and whatever is broken."""

import json

import pytest
from django.db import OperationalError, connections
from django.test import Client, override_settings

from controlplane.api import bodies
from controlplane.commands import instances
from controlplane.databases import FACTS, READER
from controlplane.models.access import Attempt
from controlplane.queries import fleet
from tests.controlplane.api.client import Api, person, token_of


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def pointers(answer) -> dict[str, str]:
    return {error["pointer"]: error["code"] for error in answer.json["errors"]}


def test_a_problem_says_what_is_wrong_for_people_and_machines(viewer):
    problem = viewer.get("instances/ghost")
    assert problem.headers["Content-Type"] == "application/problem+json"
    assert {**problem.json, "request_id": ""} == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "code": "not_found",
        "detail": "no instance is named ghost",
        "errors": [],
        "request_id": "",
    }
    assert problem.json["request_id"] == problem.headers["X-Request-ID"]


def test_a_body_is_a_json_object_of_known_fields(operator):
    def sent(raw: bytes, **options):
        return operator.ask("post", "instances", raw=raw, **options)

    for raw in (b"{", b"nonsense", b'{"name": "\xff"}', b'{"name": NaN}', b'"\\ud800"', b"[" * 100_000):
        refused = sent(raw)
        assert (refused.status, pointers(refused)) == (400, {"": "not_json"}), raw[:20]
    for raw in (b"[]", b'"a"', b"1", b"null"):
        assert pointers(sent(raw)) == {"": "not_an_object"}
    deep = b'{"name":' + b"[" * 80 + b"]" * 80 + b"}"
    assert pointers(sent(deep)) == {"": "too_deep"}
    assert pointers(sent(b"")) == {"/name": "required"}
    assert pointers(sent(b'{"name": "a", "rolle": "x", "own/port": 1}')) == {
        "/rolle": "unknown",
        "/own~1port": "unknown",
    }
    wrong = b'{"name": 7, "own_port": "8998", "role": ["prefill"], "host_alias": "", "reason": "a\\u0000b"}'
    assert set(pointers(sent(wrong))) == {"/name", "/own_port", "/role", "/host_alias", "/reason"}
    assert pointers(sent(b'{"name": "a", "own_port": true}')) == {"/own_port": "invalid"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
        refused = sent(b'{"name": "a"}', content_type=kind)
        assert (refused.status, refused.code) == (415, "unsupported_media_type"), kind
    assert not fleet.fleet(now=0).instances


def test_a_name_that_is_said_twice_is_refused(operator):
    for raw in (b'{"name": "a", "name": "b"}', b'{"name": "a", "role": {"x": 1, "x": 2}}'):
        refused = operator.ask("post", "instances", raw=raw)
        assert (refused.status, pointers(refused)) == (400, {"": "repeated"})
    assert operator.get("instances").json["items"] == []


def test_every_answer_has_the_id_that_the_log_knows_it_by(viewer):
    first, second = (viewer.get("fleet").headers["X-Request-ID"] for _ in range(2))
    assert first and second and first != second


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(operator):
    large = json.dumps({"name": "a", "reason": "x" * bodies.LIMIT_BYTES}).encode()
    assert operator.ask("post", "instances", raw=large).status == 413
    long_reason = operator.post("instances", {"name": "a", "reason": "x" * 2001})
    assert pointers(long_reason) == {"/reason": "max_length"}


def test_hostile_paths_reach_no_database(viewer):
    for part in (
        "%00", "a%00b", "..", "../../etc/passwd", "a b", "a%2Fb", "é", "'; DROP TABLE x; --", "-a", "a" * 101, "%F0%9F",
    ):  # fmt: skip
        for path in (f"instances/{part}", f"gateways/{part}", f"explain/instance/{part}", f"operations/{part}"):
            refused = viewer.get(path)
            assert (refused.status, refused.code) == (404, "not_found"), path
    assert viewer.get("operations/drain-99999999999999999999").status == 404
    assert viewer.get("rooms/-1").status == 404
    assert viewer.get("instances/").status == 404


def test_unknown_paths_and_methods_are_problems_too(viewer, stranger):
    for who in (viewer, stranger):
        assert who.get("/api/").code == who.get("/api/v2/fleet").code == who.get("nonsense").code == "not_found"
    for method in ("put", "options", "trace", "delete"):
        refused = viewer.ask(method, "/api/v1/fleet")
        assert (refused.status, refused.code) == (405, "method_not_allowed"), method
        assert set(refused.headers["Allow"].split(", ")) == {"GET", "HEAD"}
    head = viewer.client.generic("HEAD", "/api/v1/fleet")
    assert (head.status_code, head.content) == (200, b"")


def test_a_method_that_a_path_does_not_have_is_405_for_everybody_and_never_a_failure(viewer, stranger):
    for who in (viewer, stranger):
        for method, path in (("post", "instances/a"), ("put", "instances/a"), ("post", "routers/r"), ("put", "events")):
            refused = who.ask(method, path)
            assert (refused.status, refused.code) == (405, "method_not_allowed"), (method, path)


def test_what_nobody_may_do_is_kept_as_refused_and_in_bounds(viewer):
    for _ in range(70):
        assert viewer.ask("put", "fleet").status == 405
    kept = Attempt.objects.filter(source=viewer.source)
    assert not kept.filter(allowed=True).exists()
    assert 0 < kept.count() <= 60


def test_a_parameter_is_given_once_and_known(viewer):
    assert pointers(viewer.get("instances?limit=1&limit=2")) == {"?limit": "repeated"}
    assert pointers(viewer.get("instances", {"format": "xml"})) == {"?format": "unknown"}
    assert pointers(viewer.get("events", {"limit": "9999", "wait": "nan"})).keys() == {"?limit", "?wait"}
    assert pointers(viewer.get("fleet", {"x": "\x00"})) == {"?x": "unknown"}
    assert pointers(viewer.get("events", {"actor": "a\x00"})) == {"?actor": "null_characters_not_allowed"}
    assert viewer.get("instances", {"limit": "99999999999999999999999"}).status == 400


def test_the_docs_are_found_without_their_slash(viewer):
    assert viewer.client.get("/api/docs")["Location"] == "/api/docs/"


def test_a_slash_too_many_is_told(viewer):
    assert viewer.get("instances/").json["detail"].endswith("without a slash at the end")
    assert "slash" not in viewer.get("nothing").json["detail"]


def test_nobody_known_is_401_and_nobody_allowed_is_403(stranger):
    assert stranger.get("fleet").code == "unauthenticated"
    assert Api(token="pdcp_" + "0" * 64).get("fleet").status == 401
    assert Api(token="nonsense").get("fleet").status == 401
    nobody = Api(user=person(None)).get("fleet")
    assert (nobody.status, nobody.json["detail"]) == (403, "nobody-ann has no role; this needs the role viewer")
    viewer = Api(user=person("viewer")).post("instances", {"name": "a"})
    assert viewer.json["detail"] == "viewer-ann is a viewer; this needs the role operator"
    robot = Api(token=token_of("read")).post("instances", {"name": "a"})
    assert robot.json["detail"] == "this token was not given the verb operate"
    mayor = Api(token=token_of("read")).get("tokens")
    assert mayor.json["detail"] == "no token may do this: it needs an administrator who is signed in"


def test_a_session_needs_the_csrf_token_and_a_machine_does_not(operator):
    instances.add("a", actor="anna")
    forged = Api(user=person("operator", "bob"), enforce_csrf_checks=True)
    assert forged.post("instances/a/cordon").status == 403
    assert forged.get("instances/a").json["intent"] == "enabled"
    assert Api(token=token_of("operate"), enforce_csrf_checks=True).post("instances/a/cordon").status == 200


def test_a_token_in_the_query_is_no_token(stranger):
    token = token_of("read")
    assert stranger.get("fleet", {"token": token}).status == 401
    assert stranger.get("fleet", {"access_token": token}).status == 401


class Down:
    """A database that does not answer."""

    def __call__(self, execute, sql, params, many, context):
        raise OperationalError("could not connect to server: host=10.1.1.1 password=hunter2")


def test_a_database_that_is_away_is_503_and_says_nothing_of_itself(viewer):
    token = token_of("read")
    viewer.get("instances")
    with connections[READER].execute_wrapper(Down()):
        for path in ("instances", "fleet", "events", "explain/routable", "operations/request-1"):
            away = viewer.get(path)
            assert (away.status, away.code, away.headers["Retry-After"]) == (503, "unavailable", "1"), path
            assert "hunter2" not in away.response.content.decode()
    with connections[FACTS].execute_wrapper(Down()):
        assert Api(token=token).get("instances").status == 503


@pytest.mark.filterwarnings("ignore:Django checks for ServeStatic")
def test_a_bug_is_a_problem_that_shows_nothing_of_the_code(viewer, monkeypatch):
    def broken(**_):
        raise RuntimeError("secret of the code")

    monkeypatch.setattr(fleet, "fleet", broken)
    for debug in (True, False):
        with override_settings(DEBUG=debug):
            problem = viewer.get("instances")
            assert (problem.status, problem.code) == (500, "internal")
            assert b"secret of the code" not in problem.response.content


def test_a_bad_host_header_is_a_problem_under_the_api_alone(viewer):
    client = Client(SERVER_NAME="evil.example", raise_request_exception=False)
    refused = client.get("/api/v1/fleet")
    assert refused.status_code == 400
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert json.loads(refused.content)["code"] == "malformed"
    assert client.get("/sign-in/").headers["Content-Type"].startswith("text/html")


def test_answers_are_not_kept_by_anybody_between(viewer):
    instances.add("a", actor="anna")
    assert viewer.get("instances").headers["Cache-Control"] == "no-store"
    assert viewer.get("fleet").headers["Cache-Control"] == "private, no-cache"
    assert viewer.get("instances/ghost").headers["Cache-Control"] == "no-store"
