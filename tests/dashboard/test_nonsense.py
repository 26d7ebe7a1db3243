"""What no page was made for: parameters that nobody would send, and parts that are asked for again and again."""

from urllib.parse import urlencode

import pytest

from tests.controlplane.queries.world import World

NONSENSE = ("\x00", "-1", "99999999999999999999999", "9223372036854775807", "x" * 3000, "\u202e💥", "'\"><b>")
PARAMETERS = {
    "/": ("q", "sort", "after"),
    "/instances.csv": ("q",),
    "/instances/prefill-a/": ("rank", "launch", "after", "before", "dp"),
    "/rooms/": ("room", "instance", "from", "after", "collisions"),
    "/rooms.csv": ("instance",),
    "/pairs/": ("q", "prefill", "decode", "from_prefill", "as.tp_size"),
    "/drains/": ("instance", "before"),
    "/weights/": ("q", "only", "from"),
    "/weights/prefill-a/": ("after",),
    "/gateways/": ("q", "after"),
    "/alarms/": ("severity", "instance", "before"),
    "/alarms.csv": ("severity", "instance"),
    "/events/": ("q", "instance", "who", "since", "event", "before"),
    "/events/fleet/": ("as_of", "instance", "with"),
    "/activity/": ("since", "range"),
    "/palette/": ("q",),
    "/act/cordon": ("on", "back"),
    "/act/acknowledge-alarm": ("on", "back"),
}


@pytest.mark.parametrize("path", PARAMETERS)
def test_nonsense_is_refused_or_finds_nothing_and_is_never_a_failure(admin, path):
    World("prefill-a")
    for name in PARAMETERS[path]:
        for text in NONSENSE:
            answer = admin.client.get(f"{path}?{urlencode({name: text})}")
            assert answer.status_code in (200, 302, 400, 404, 409), f"{name}={text[:30]!r}: {answer.status_code}"
            assert b"'\"><b>" not in answer.content, name


def test_a_part_that_is_named_many_times_comes_once(operator):
    said = operator.get("/", parts=",".join(["counters"] * 500))
    assert said.count('data-part="counters"') == 1
