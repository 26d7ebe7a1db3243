"""The OpenAPI document: complete, offline, and true whatever is sent (schemathesis)."""

import copy
import os
from collections import Counter
from collections.abc import Callable

import pytest
import schemathesis
from django.conf import settings as knobs
from django.contrib.auth.models import User
from django.core.wsgi import get_wsgi_application
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from controlplane.commands import drains, gateways, instances, requests, routers
from controlplane.domain.topology import Topology
from controlplane.models import Breaker, RoomBinding, RoomCollision
from tests.controlplane.api.client import Api, openapi, person
from tests.controlplane.commands.alarming import an_alarm
from tests.controlplane.queries.world import World

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "15"))
"""Of each operation, and as many again that the schema forbids; more of them look deeper."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
KNOWN = {
    "name": ["prefill-a", "decode-a"],
    "gateway": ["g1"],
    "router": ["r1"],
    "drain": [1],
    "alarm": [1],
    "operation": ["drain-1", "request-1"],
    "room": ["7"],
}
"""What exists, so that not everything is 404."""

load_all_checks()


@pytest.fixture
def on_sqlite(sqlite_backend):
    from tests.controlplane.commands import on_backend as module

    yield from module.on_backend.__wrapped__(sqlite_backend)


@pytest.fixture
def busy(on_sqlite) -> None:
    """A fleet with something of everything."""
    world = World("prefill-a")
    world.launch(Topology(2, 1, 2, 1), first_port=4000)
    instances.add("decode-a", role="decode", engine_url="http://10.0.0.3:30000", actor="anna")
    gateways.join("g1", "http://10.0.0.7:8080")
    gateways.report_breakers("g1", [{"instance": "prefill-a", "dp": 1, "state": Breaker.State.OPEN}])
    routers.add("r1", "http://10.0.0.8:30000", ["decode-a"], actor="anna")
    drains.drain("prefill-a", group=1, actor="anna", reason="swap")
    requests.make("readmit", "prefill-a", actor="anna")
    RoomBinding.objects.create(instance_id=world.row.pk, room=7, dp=0, expires_ms=2**42)
    RoomCollision.objects.create(instance_id=world.row.pk, room=7, before=1, after=0, at=world.now)
    an_alarm("prefill-a")


def fuzzed(mode: GenerationMode, ask: Callable, examples: int) -> None:
    document = copy.deepcopy(openapi())
    # Who asks is given; made-up tokens would be 401 and teach nothing.
    del document["components"]["securitySchemes"]
    for operation in (each for path in document["paths"].values() for each in path.values()):
        del operation["security"]
    schema = schemathesis.openapi.from_dict(document)
    for operation in sorted((found.ok() for found in schema.get_all_operations()), key=_ends_something):
        raw = operation.definition.raw
        if mode is GenerationMode.NEGATIVE and not (raw.get("parameters") or raw.get("requestBody")):
            # It takes nothing, so nothing that it takes can be wrong.
            continue
        fuzz(operation, mode, ask, examples)


def _ends_something(operation) -> bool:
    """Last: what is retired or removed answers 404 or 409 to everything else."""
    return operation.method == "delete" or operation.path.endswith(("/retire", "/purge"))


def fuzz(operation, mode: GenerationMode, ask: Callable, examples: int) -> None:
    @settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def each(case, data) -> None:
        if mode is GenerationMode.POSITIVE and data.draw(st.booleans()):
            for name, values in KNOWN.items():
                if name in case.path_parameters:
                    case.path_parameters[name] = data.draw(st.sampled_from(values))
        ask(case)

    each()


def asking(user: User, checks: list) -> Callable:
    """As a signed-in admin, who may do everything; CSRF is the only thing that a page would have besides."""
    signed_in = Client()
    signed_in.force_login(user, backend=knobs.AUTHENTICATION_BACKENDS[0])
    csrf = "c" * 32
    headers = {"Host": "localhost", "X-CSRFToken": csrf}
    cookies = {"sessionid": signed_in.cookies["sessionid"].value, "csrftoken": csrf}
    application = get_wsgi_application()

    def ask(case) -> None:
        if isinstance(case.query, dict):
            # Nothing is waited for here.
            case.query.pop("wait", None)
        if case.headers and "Idempotency-Key" in case.headers and SEEN.total() % 2:
            # The usual made-up keys are alike, and would be refused as used before.
            case.headers["Idempotency-Key"] = f"key-{SEEN.total()}"
        case.operation.app = case.operation.schema.app = application
        response = case.call(headers=headers, cookies=cookies, base_url="http://localhost")
        SEEN[case.operation.label, response.status_code] += 1
        if not_serving(case.operation, response):
            return
        bad = {where for where, part in case.meta.components.items() if part.mode is GenerationMode.NEGATIVE}
        # Spaces around a header's value are not part of it, whatever its pattern says: headers are tested by hand.
        asked = [check for check in checks if check is not negative_data_rejection or bad - {ParameterLocation.HEADER}]
        case.validate_response(response, checks=asked)

    return ask


def not_serving(operation, response) -> bool:
    """The one 5xx that is meant: a prefill that does not serve now is asked for again, after Retry-After."""
    return operation.path == "/api/v1/resolve" and response.status_code == 503 and "retry-after" in response.headers


SEEN: Counter[tuple[str, int]] = Counter()


@pytest.mark.timeout(240 + 60 * EXAMPLES)
def test_whatever_is_sent_is_answered_as_the_schema_says(busy):
    SEEN.clear()
    fuzzed(GenerationMode.POSITIVE, asking(person("admin"), CHECKS), EXAMPLES)
    statuses = {status for _, status in SEEN}
    assert {200, 201, 202, 404} <= statuses and 401 not in statuses
    fine = {label for label, status in SEEN if status < 300}
    assert len(fine) > 30, sorted({label for label, _ in SEEN} - fine)


@pytest.mark.timeout(240 + 60 * EXAMPLES)
def test_what_the_schema_forbids_is_refused_and_breaks_nothing(busy):
    SEEN.clear()
    fuzzed(GenerationMode.NEGATIVE, asking(person("admin"), [*CHECKS, negative_data_rejection]), EXAMPLES)
    assert SEEN.total() > 100


def test_the_schema_is_served_to_those_who_may_read(on_sqlite):
    viewer, stranger = Api(user=person("viewer")), Api()
    yaml = viewer.client.get("/api/schema/")
    assert (yaml.status_code, yaml.headers["Content-Type"]) == (200, "application/vnd.oai.openapi; charset=utf-8")
    as_json = viewer.client.get("/api/schema/", headers={"Accept": "application/vnd.oai.openapi+json"})
    assert as_json.json()["paths"].keys() == openapi()["paths"].keys()
    assert stranger.get("/api/schema/").status == stranger.get("/api/docs/").status == 401


def test_the_schema_has_no_warnings():
    from drf_spectacular.drainage import GENERATOR_STATS

    openapi()
    assert not GENERATOR_STATS, (GENERATOR_STATS._warn_cache, GENERATOR_STATS._error_cache)


def test_the_docs_need_nothing_from_elsewhere_and_no_looser_policy(on_sqlite):
    viewer = Api(user=person("viewer")).client
    page = viewer.get("/api/docs/")
    html = page.content.decode()
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert "http://" not in html and "https://" not in html
    assert "<style" not in html
    for link in _links(html):
        assert Client(SERVER_NAME="localhost").get(link).status_code == 200 or "script" in link, link
    script = viewer.get("/api/docs/?script=")
    assert script.headers["Content-Type"] == "application/javascript"
    assert b"SwaggerUIBundle" in script.content


def _links(html: str) -> list[str]:
    import re

    return re.findall(r'(?:src|href)="([^"]+)"', html)
