"""Who may do what, from the URL patterns: role × route × method, verbs of tokens, and the one instance they are bound to."""

import itertools
import re

import pytest
from django.urls import URLPattern
from django.views.generic import RedirectView

from controlplane.access.roles import LEAST_ROLE, TOKEN_VERBS, Role
from controlplane.api import urls
from controlplane.api.handlers import nothing_here
from controlplane.api.permissions import needed
from controlplane.api.view import View
from tests.controlplane.api.client import Api, openapi, person, template_of, token_of
from tests.controlplane.commands.on_backend import on_backend  # noqa: F401

READS = {
    "fleet", "events", "instances", "instances/{name}", "instances/{name}/launches", "instances/{name}/ranks",
    "instances/{name}/workers", "instances/{name}/engine-info", "instances/{name}/rooms",
    "drains", "drains/{drain}", "operations/{operation}",
    "rooms", "rooms/{room}", "collisions", "reuses", "gateways", "gateways/{gateway}", "routers", "routers/{router}",
    "alarms", "alarms/notices", "alarms/{alarm}",
    "stale", "archive", "retention",
    "clockwork", "compatibility", "explain/routable", "explain/instance/{name}", "explain/room/{room}",
    "/api/schema/", "/api/docs/",
}  # fmt: skip
ACTIONS = (
    "cordon", "uncordon", "drain", "cancel-drain", "force-drain", "retire", "evict", "supersede", "readmit", "reregister",
    "purge",
)  # fmt: skip
EXPECTED = {
    **{("GET", path): "read" for path in READS},
    **{("POST", f"instances/{{name}}/{action}"): "operate" for action in ACTIONS},
    ("POST", "instances/{name}/suspect"): "operate or gateway or report",
    ("POST", "instances"): "operate",
    ("PATCH", "instances/{name}"): "operate",
    ("DELETE", "instances/{name}"): "operate",
    ("POST", "routers"): "operate",
    ("POST", "alarms/{alarm}/acknowledge"): "operate",
    ("PATCH", "routers/{router}"): "operate",
    ("DELETE", "routers/{router}"): "operate",
    ("POST", "gateways"): "gateway",
    ("DELETE", "gateways/{gateway}"): "gateway or operate",
    **{
        ("POST", f"gateways/{{gateway}}/{what}"): "gateway"
        for what in ("acknowledge", "breakers", "open-rooms", "outcomes")
    },
    ("POST", "workers/open-rooms"): "report",
    ("POST", "workers/evidence"): "report",
    ("POST", "resolve"): "resolve",
    ("POST", "compatibility"): "resolve",
    ("POST", "archive/purge"): "administer",
    ("GET", "tokens"): "administer",
    ("POST", "tokens"): "administer",
    ("DELETE", "tokens/{key}"): "administer",
    ("GET", "attempts"): "administer",
}
"""Every method of every path, and what it needs. Whoever adds an endpoint adds a line, and so has thought of it."""

FILLED = {
    "name": "a",
    "gateway": "g",
    "router": "r",
    "alarm": "1",
    "drain": "1",
    "operation": "drain-1",
    "room": "7",
    "key": "pdcp_0",
}
DENIED = {401, 403}


def routes() -> list[tuple[str, str, URLPattern]]:
    """(method, path as in OpenAPI, pattern) of whatever answers."""
    found = []
    for pattern in urls.urlpatterns:
        # A redirect tells nothing of its own.
        if pattern.callback is nothing_here or getattr(pattern.callback, "view_class", None) is RedirectView:
            continue
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", "/api/" + str(pattern.pattern)).removeprefix("/api/v1/")
        view = pattern.callback.cls
        found += [(method, path, pattern) for method in view().allowed_methods if method != "HEAD"]
    return found


def address(path: str) -> str:
    filled = re.sub(r"{(\w+)}", lambda found: FILLED[found[1]], path)
    return filled if filled.startswith("/") else f"/api/v1/{filled}"


def test_each_method_of_each_path_needs_what_this_table_says():
    declared = {(method, path): " or ".join(needed(pattern.callback.cls, method)) for method, path, pattern in routes()}
    assert declared == EXPECTED


def test_a_view_that_declares_nothing_is_denied_to_everybody(on_backend):  # noqa: F811
    from django.test import RequestFactory

    class Forgotten(View):
        def get(self, request):
            return self.say({})

    request = RequestFactory().get("/")
    request.user = person("admin")
    request._dont_enforce_csrf_checks = True
    answer = Forgotten.as_view()(request)
    assert answer.status_code == 403
    assert b"nobody may do this" in answer.content


def test_a_view_that_forgets_to_ask_about_the_instance_denies_a_bound_token(on_backend):  # noqa: F811
    from django.test import RequestFactory

    class Forgetful(View):
        verbs = {"GET": "read"}
        scope = "asked"

        def get(self, request):
            return self.say({"secret": 1})

    def ask(token: str):
        request = RequestFactory().get("/", headers={"Authorization": f"Bearer {token}"})
        return Forgetful.as_view()(request)

    assert ask(token_of("read")).status_code == 200
    denied = ask(token_of("read", instance="a"))
    assert (denied.status_code, b"secret" in denied.content) == (403, False)


def test_every_path_is_in_the_schema_with_every_answer_to_who_may_not():
    for method, path, _ in routes():
        if path.startswith("/api/"):
            continue
        operation = openapi()["paths"][template_of(address(path))][method.lower()]
        assert {"401", "403"} <= set(operation["responses"]), path
        assert operation["security"] == [{"token": []}, {"session": []}]
        assert operation["summary"], path


@pytest.fixture
def on_sqlite(sqlite_backend, request):
    """One kind of database is enough for who may do what."""
    from tests.controlplane.commands import on_backend as module

    yield from module.on_backend.__wrapped__(sqlite_backend)


def test_roles_may_do_what_their_verbs_say_and_nothing_else(on_sqlite):
    people = {role: Api(user=person(role.name.lower() if role else None)) for role in Role}
    stranger = Api()
    for method, path, pattern in routes():
        least = min(LEAST_ROLE[verb] for verb in needed(pattern.callback.cls, method))
        assert stranger.ask(method.lower(), address(path)).status == 401, (method, path)
        for role, who in people.items():
            status = who.ask(method.lower(), address(path)).status
            assert (status not in DENIED) == (role >= least), (role, method, path, status)


def test_tokens_may_do_what_they_were_given_and_nothing_else(on_sqlite):
    machines = {verb: Api(token=token_of(verb, name=verb)) for verb in TOKEN_VERBS}
    for (method, path, pattern), (verb, who) in itertools.product(routes(), machines.items()):
        status = who.ask(method.lower(), address(path)).status
        allowed = verb in needed(pattern.callback.cls, method)
        assert (status not in DENIED) == allowed, (verb, method, path, status)
        if not allowed:
            assert status == 403


def test_tokens_bound_to_another_instance_may_do_nothing_anywhere(on_sqlite):
    """Nor may they see the fleet: whatever is not about their own instance is denied."""
    other = Api(token=token_of(*TOKEN_VERBS, instance="other"))
    own = Api(token=token_of(*TOKEN_VERBS, instance="a"))
    for method, path, _ in routes():
        if path.startswith("/api/"):
            continue
        status = other.ask(method.lower(), address(path)).status
        # About an operation or a drain that does not exist nobody learns anything; what is asked in a body that
        # is not there is not known to be about somebody else.
        assert status in {403} | ({400, 404} if path in ASKED_LATER else set()), (method, path, status)
        if "{name}" in path:
            assert own.ask(method.lower(), address(path)).status not in DENIED, (method, path)


ASKED_LATER = {
    "alarms/{alarm}", "alarms/{alarm}/acknowledge",
    "drains/{drain}", "operations/{operation}", "resolve", "workers/open-rooms", "workers/evidence", "rooms", "instances",
}  # fmt: skip
