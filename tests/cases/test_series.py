"""Counters that move: what the charts are drawn from changes by exactly what happened, by whatever way it was answered."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from controlplane.ledger.tables import SAMPLE
from tests.cases.ranks import Ranks, eventually, here
from tests.wire.client import rank
from tests.wire.conftest import Server
from tests.wire.raw import Wire

PATIENCE_SECONDS = 60.0
HEAD = b"PUT /i/counted/route HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
COUNTED = ("registrations", "lookups", "bindings", "collisions", "refusals", "rooms")
PROBED = ("probes", "unanswered", "probe_p50_ms", "probe_p99_ms")


def sampled(server: Server, names: tuple[str, ...]) -> dict[str, float | None]:
    """What all samples together have counted, and the largest of what they measured."""
    totals = [f"{'MAX' if name.endswith('_ms') or name == 'rooms' else 'SUM'}({name})" for name in names]
    with closing(
        sqlite3.connect(f"file:{server.backend.data_dir / 'traffic.sqlite3'}?mode=ro", uri=True)
    ) as connection:
        found = connection.execute(f"SELECT {', '.join(totals)} FROM controlplane_sample").fetchone()
    return dict(zip(names, found, strict=True))


def test_OPS_01_every_counter_moves_by_exactly_what_happened(serve):
    server: Server = serve(PDCP_PROBE_NETWORKS="none", PDCP_KV_BODY_LIMIT_BYTES=2048)
    kv, engine = server.kv("counted"), server.engine("counted")
    for dp in (0, 1, 1):
        assert kv.put(attn_dp_size=2, attn_dp_rank=dp, rank_port=41_000 + dp).status == 200
    for _ in range(5):
        # The first is read in full, the others are known by their raw bytes.
        assert kv.topology().status == 200
    assert kv.slot(tp=7).status == 404
    for room, dp in ((7, 0), (7, 0), (8, 0), (8, 1)):
        assert kv.bind(room, dp).status == 200
    for _ in range(2):
        assert kv.find(7, 9).json() == {"7": 0}
    assert engine.publish(tp_rank=0).status == 200
    for _ in range(3):
        assert engine("GET", "/get_transfer_engine_info?rank=0").status == 200
    for _ in range(6):
        assert kv("GET", "/health").status == 200
    with Wire(server.process.kv_port) as wire:
        # Head and body in one read: the second time the head is known, and its body goes the short way.
        body = json.dumps(rank(attn_tp_rank=-1)).encode()
        for _ in range(2):
            wire.send(HEAD % len(body) + body)
            assert wire.answer().status == 400
    assert kv("PUT", "/route", body=b" " * 3000).status == 413
    assert kv.put(attn_dp_size=2, page_size=32).status == 200
    assert kv.put(attn_dp_size=2, attn_dp_rank=1, page_size=16).status == 409
    wanted = {
        # The one that was refused for its page size could be read.
        "registrations": 3 + 1 + 1,
        "lookups": 5 + 1 + 2 + 3,
        "bindings": 4,
        "collisions": 1,
        "refusals": 2 + 1 + 1,
        "rooms": 2,
    }
    eventually(lambda: sampled(server, COUNTED) == wanted, within=PATIENCE_SECONDS)


def test_OPS_01_probes_without_an_answer_are_counted_and_the_others_are_timed(watch, ranks: Ranks):
    server: Server = watch("a")
    port = ranks.open()
    assert server.kv("a").put(**here(rank_port=port)).status == 200
    said = eventually(lambda: (found := sampled(server, PROBED))["probes"] and found, within=PATIENCE_SECONDS)
    assert said["unanswered"] == 0 and 0 < said["probe_p50_ms"] <= said["probe_p99_ms"] < 5000
    ranks.die(port)
    eventually(lambda: sampled(server, PROBED)["unanswered"], within=PATIENCE_SECONDS)


def test_OPS_01_nothing_is_sampled_that_no_test_has_seen_move():
    assert set(COUNTED) | set(PROBED) | {"at", "seconds"} == set(SAMPLE.columns)
