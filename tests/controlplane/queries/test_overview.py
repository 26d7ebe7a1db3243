"""The list of instances, from real tables."""

import time

from controlplane.databases import FACTS
from controlplane.models import OpenRooms
from controlplane.queries import memo, overview
from controlplane.queries.fleet import snapshot
from controlplane.queries.overview import Wanted
from tests.controlplane.queries.world import World


def test_what_a_witness_says_of_an_instance_and_of_its_dp_groups_is_not_added_up(on_backend):
    World("prefill-a")
    now = time.time()
    given = {"kind": "gateway", "instance": "prefill-a", "taken_at": now, "received_at": now}
    for source, group, count in (("g1", -1, 7), ("g1", 0, 3), ("g1", 1, 4), ("g2", 0, 2), ("g3", -1, 1), ("g3", 0, 3)):
        OpenRooms.objects.using(FACTS).create(source=source, group=group, open_rooms=count, **given)
    memo.forget()
    with snapshot():
        page = overview.listing(memo.weighed(now=now).rows, Wanted())
    assert [row.rooms.count for row in page.rows] == [7 + 2 + 3]
