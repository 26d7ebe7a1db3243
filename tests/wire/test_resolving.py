"""`POST /pd/v1/resolve`: all that a decode needs of a prefill, in one answer of the door."""

from typing import Any

from tests.wire.conftest import Server

DECODE = {"tp_size": 1, "pp_size": 1, "is_mla": False, "page_size": 64}


def register(server: Server, instance: str, *, first_port: int = 41000, page_size: int = 64) -> None:
    for dp in range(2):
        for tp in range(2):
            answer = server.kv(instance).put(
                attn_dp_size=2, attn_dp_rank=dp, attn_tp_size=2, attn_tp_rank=tp,
                rank_port=first_port + 2 * dp + tp, page_size=page_size,
            )  # fmt: skip
            assert answer.status == 200, answer


def ask(server: Server, tenant: str, *, headers: dict[str, str] | None = None, **asked: Any) -> Any:
    body = {"instance": tenant, "decode": DECODE, **asked}
    sent = {"X-PD-Instance": tenant, **(headers or {})}
    return server.kv()("POST", "/pd/v1/resolve", js=body, headers=sent)


def test_one_answer_has_the_mapping_and_every_address(server: Server, tenant: str):
    register(server, tenant)
    answer = ask(server, tenant)
    assert answer.status == 200 and answer.content_type == "application/json"
    said = answer.json()
    assert (said["instance"], said["launch"], said["intent"]) == (tenant, 1, "enabled")
    assert said["topology"] == {"dp": 2, "cp": 1, "tp": 2, "pp": 1} and said["follow_bootstrap_room"] is True
    (rank,) = said["ranks"]
    assert (rank["target_tp_ranks"], rank["required_prefill_response_num"]) == ([0, 1], 2)
    assert [[one["address"] for one in group["targets"]] for group in rank["groups"]] == [
        ["10.0.1.10:41000", "10.0.1.10:41001"],
        ["10.0.1.10:41002", "10.0.1.10:41003"],
    ]
    only = ask(server, tenant, dp=1, engine_rank=0).json()
    assert [group["dp"] for group in only["ranks"][0]["groups"]] == [1]


def test_its_etag_stays_while_nothing_changes(server: Server, tenant: str):
    register(server, tenant)
    etag = ask(server, tenant).headers["etag"]
    again = ask(server, tenant, headers={"If-None-Match": etag})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    register(server, tenant)
    assert ask(server, tenant, headers={"If-None-Match": f'W/"x", {etag}'}).status == 304
    other = ask(server, tenant, dp=1, headers={"If-None-Match": etag})
    assert other.status == 200 and other.headers["etag"] != etag


def test_what_cannot_be_answered_is_said_with_the_reason(server: Server, tenant: str):
    assert ask(server, tenant).status == 404
    server.kv(tenant).put(attn_tp_size=2)
    filling = ask(server, tenant)
    assert filling.status == 503 and "(1 workers registered)" in filling.text and "dp0 cp0 tp1 pp0" in filling.text
    server.kv(tenant).put(attn_tp_size=2, attn_tp_rank=1, rank_port=41001)
    assert ask(server, tenant).status == 200
    misfit = ask(server, tenant, decode={**DECODE, "page_size": 32})
    assert misfit.status == 409 and "page_size differs" in misfit.text
    for wrong, named in (
        ({"decode": {}}, "tp_size is needed"),
        ({"decode": {"tp_size": 1}}, "is_mla is needed"),
        ({"decode": {"size": 1}}, "'size'"),
        ({"dp": 7}, "dp 7 does not exist"),
        ({"engine_rank": "x"}, "engine_rank"),
        ({"instance": "another"}, "another"),
    ):
        refused = ask(server, tenant, **wrong)
        assert refused.status == 400 and named in refused.text, (wrong, refused)
    assert server.kv(tenant)("GET", "/pd/v1/resolve").status == 405
