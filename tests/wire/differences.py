"""Where our answer to a recorded exchange is deliberately another one: the answer, and the rule it follows.

The rules are the rows of the wire's description that say where the original is wrong; each is quoted once below.
"""

import re
from dataclasses import dataclass

from tests.wire.client import ENGINE_JSON, JSON, TEXT

TWICE = "the same rank registers twice: a set of slots, counted once"
RANGE = "rank index ≥ its declared size, size < 1, port outside 1–65535, unusable rank_ip: 400, nothing stored"
MALFORMED = "malformed body, wrong types, missing field: 400 with one sentence that names the field; 413 over the limit"
QUERY = "non-integer / 5,000-digit query values: 400"
GENERATIONS = "restart with new ports or new sizes: generations; 503 until those who cached the old launch have noticed"
ROOMS = "rooms are integers 0 … 2^63−1, bound and answered exactly; others are refused and never found"
ENGINE_KEY = "engine info is keyed by (instance, rank), and a rank is the same number however it is written"
PROXY = "the serving engine's proxy is served too, and its old alias"
PATHS = "the wire has its paths, and no redirects or pages beside them"
CONTENT_TYPE = "no row of its own: like the KV wire, and unlike FastAPI, a body is JSON whatever its content type says"

REASONS = (TWICE, RANGE, MALFORMED, QUERY, GENERATIONS, ROOMS, ENGINE_KEY, PROXY, PATHS, CONTENT_TYPE)


@dataclass(frozen=True, slots=True)
class Difference:
    """Our answer. A `pattern` is the whole body as a regular expression; the reason is one of REASONS."""

    status: int
    content_type: str
    body: str | re.Pattern[str]
    reason: str = ""

    def matches(self, status: int, content_type: str | None, body: str) -> bool:
        if (status, content_type) != (self.status, self.content_type):
            return False
        return body == self.body if isinstance(self.body, str) else bool(self.body.fullmatch(body))


def refused(sentence: str) -> Difference:
    return Difference(400, TEXT, sentence)


def refused_like(pattern: str) -> Difference:
    """For sentences of which the JSON library writes a part."""
    return Difference(400, TEXT, re.compile(pattern))


def missing(field: str) -> Difference:
    return refused(f"{field} is missing")


def engine_refused(pattern: str) -> Difference:
    return Difference(400, ENGINE_JSON, re.compile(r'\{"detail":"' + pattern + r'"\}'))


def not_yet(registered: int) -> Difference:
    return Difference(503, TEXT, f"Prefill server not fully registered yet ({registered} workers registered).")


def unpublished(rank: int) -> Difference:
    return Difference(404, ENGINE_JSON, f'{{"detail":"No transfer engine info for rank {rank}"}}')


def published(rank: int) -> Difference:
    session = '"10.0.0.1:12345",{"model.embed.weight":[140000000000000,1048576,2]}'
    return Difference(200, ENGINE_JSON, f'{{"rank":{rank},"remote_instance_transfer_engine_info":[{session}]}}')


OK = Difference(200, TEXT, "OK")
UNKNOWN_PATH = Difference(404, ENGINE_JSON, '{"detail":"Not Found"}')
RANK_0 = Difference(200, JSON, '{"rank_ip": "10.0.0.1", "rank_port": 40000}')
TOPOLOGY = Difference(
    200,
    JSON,
    '{"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1, "page_size": 64, "kv_cache_dtype": "auto",'
    ' "follow_bootstrap_room": true, "enable_dsa_cache_layer_split": false, "decode_allocation_policy": "early",'
    ' "enable_kv_cache_sharding": false, "prefill_http_port": 30000, "target_tp_rank": null, "target_tp_ranks": null,'
    ' "target_cp_ranks": null, "target_pp_ranks": null, "required_dst_info_num": null,'
    ' "required_prefill_response_num": null}',
)
NO_ROOMS = Difference(200, JSON, "{}")
BAD_ROOM = r"bootstrap_room must be between 0 and 9223372036854775807, not .+"
REQUIRED = (
    "attn_tp_size",
    "attn_tp_rank",
    "attn_cp_size",
    "attn_cp_rank",
    "attn_dp_size",
    "attn_dp_rank",
    "pp_size",
    "pp_rank",
    "system_dp_size",
    "system_dp_rank",
    "rank_ip",
    "rank_port",
    "page_size",
    "kv_cache_dtype",
)

# By rule, then by group: exchange -> our answer.
BY_RULE: list[tuple[str, str, dict[str, Difference]]] = [
    (TWICE, "duplicate-put-bug", {"get-all-looks-ready": not_yet(1), "get-tp0": not_yet(1), "get-tp1-404": not_yet(1)}),
    (
        RANGE,
        "rank-out-of-range",
        {
            "put-tp-rank-7-of-1": refused("tp rank 7 does not exist in a topology of 1"),
            "get-all-ready": not_yet(0),
            "get-tp0": not_yet(0),
            "get-tp7": not_yet(0),
            "put-negative-rank": refused("tp rank -2 does not exist in a topology of 1"),
            "get-negative-rank": not_yet(0),
        },
    ),
    (
        RANGE,
        "zero-sizes",
        {"put-tp-size-0": refused("tp size must be between 1 and 4096, not 0"), "get-all": not_yet(0)},
    ),
    (
        RANGE,
        "put-lenient-types",
        {
            "rank_port-out-of-range-70000": refused("rank_port must be between 1 and 65535, not 70000"),
            "get-70000": not_yet(0),
            "rank_port-negative": refused("rank_port must be between 1 and 65535, not -1"),
            "rank_ip-empty": refused("rank_ip: the host is missing"),
        },
    ),
    (
        MALFORMED,
        "put-lenient-types",
        {
            "rank_port-string-number-float-page_size": refused_like(
                "(rank_ip|page_size|kv_cache_dtype): expected .+, got .+"
            ),
            "get-all": not_yet(0),
            "get": not_yet(0),
            "rank_port-true": refused_like("rank_port: expected .+, got bool"),
            "get-true": not_yet(0),
            "rank_ip-null": refused_like("rank_ip: expected .+, got null"),
            "get-ip-null": not_yet(0),
            "prefill_http_port-bad": refused("prefill_http_port must be an integer, not 'abc'"),
        },
    ),
    (MALFORMED, "put-malformed", {f"missing-{field}": missing(field) for field in REQUIRED}),
    (
        MALFORMED,
        "put-malformed",
        {
            "empty-object": missing("attn_tp_size"),
            "json-array": refused_like("the body of PUT /route must be a JSON object: .+ got array"),
            "json-null": refused_like("the body of PUT /route must be a JSON object: .+ got null"),
            "json-string": refused_like("the body of PUT /route must be a JSON object: .+ got str"),
            "non-json": refused_like("the body of PUT /route is not JSON: .+"),
            "truncated-json": refused_like("the body of PUT /route is not JSON: .+"),
            "empty-body": refused("PUT /route has no body; a JSON object is needed"),
            "no-body": refused("PUT /route has no body; a JSON object is needed"),
            # The bytes stand in a key that is ignored; what is missing is said first.
            "invalid-utf8": refused_like("attn_tp_size is missing|the body of PUT /route is not JSON: .+"),
            "rank_port-not-a-number": refused("rank_port must be an integer, not 'abc'"),
            "rank_port-null": refused_like("rank_port: expected .+, got null"),
            "page_size-null": refused_like("page_size: expected .+, got null"),
            "rank_port-list": refused_like("rank_port: expected .+, got array"),
        },
    ),
    (
        MALFORMED,
        "poison-string-size",
        {
            "put-attn_tp_size-string-4": refused_like("attn_tp_size: expected int, got str"),
            "get-all-500": not_yet(0),
            "get-all-still-500": TOPOLOGY,
            "get-rank-500": RANK_0,
        },
    ),
    (
        MALFORMED,
        "poison-string-rank",
        {
            "put-attn_tp_rank-string-0": refused_like("attn_tp_rank: expected int, got str"),
            "get-all-ready": not_yet(0),
            "get-rank-404": not_yet(0),
        },
    ),
    (
        MALFORMED,
        "put-null-size",
        {
            "put-attn_tp_size-null": refused_like("attn_tp_size: expected int, got null"),
            "get-all-503-count-1": not_yet(0),
        },
    ),
    (
        MALFORMED,
        "put-unhashable-rank",
        {"put-attn_tp_rank-list": refused_like("attn_tp_rank: expected int, got array"), "get-all": not_yet(1)},
    ),
    (
        MALFORMED,
        "put-bad-prefill-http-port-first",
        {"put-bad": refused("prefill_http_port must be an integer, not 'abc'"), "get-all-503": TOPOLOGY},
    ),
    (
        QUERY,
        "get-parameters",
        {
            "non-int": refused("prefill_dp_rank must be an integer, not 'abc'"),
            "float": refused("target_tp_rank must be an integer, not '0.0'"),
            "5000-digit-int": refused_like(r"prefill_dp_rank must be an integer, not '1{1,60}\.\.\.'"),
        },
    ),
    (
        GENERATIONS,
        "all-optional-fields-set",
        {"put-mismatched-spec-layout": OK, "put-mismatched-policy": OK, "get-all-unchanged": not_yet(1)},
    ),
    (GENERATIONS, "reregistration-changed-port", {"get-new": not_yet(1), "get-all": not_yet(1)}),
    (
        GENERATIONS,
        "changed-topology-after-registration",
        {"get-all-still-old-topology": not_yet(4), "get-tp3-new-rank-visible": not_yet(4)},
    ),
    (GENERATIONS, "shrunk-topology-stale-ranks", {"get-all": not_yet(1), "get-stale-tp3": not_yet(1)}),
    (
        ROOMS,
        "rooms",
        {
            **{f"register-room-{n}": refused_like(BAD_ROOM) for n in ("2**63", "2**64", "10**40", "negative")},
            **{f"query-room-{n}": NO_ROOMS for n in ("2**63", "2**64", "10**40", "negative")},
        },
    ),
    (
        MALFORMED,
        "rooms",
        {
            "register-float-room-truncated": refused_like("bootstrap_room: expected .+, got float"),
            "query-12": refused_like(r"bootstrap_rooms\[1\]: expected .+, got float"),
            "register-true": refused_like("bootstrap_room: expected .+, got bool"),
            "query-1": NO_ROOMS,
            "register-dp_rank-huge-and-negative": refused("dp_rank must be between 0 and 65535, not -999999999999"),
            "query-13": NO_ROOMS,
            "query-string-instead-of-list": refused_like("bootstrap_rooms: expected array, got str"),
            "query-dict-instead-of-list": refused_like("bootstrap_rooms: expected array, got object"),
            "query-extra-large-response-order": Difference(200, JSON, '{"14": 99, "7": 3}'),
        },
    ),
    (
        MALFORMED,
        "rooms-malformed",
        {
            "register-missing-room": missing("bootstrap_room"),
            "register-missing-dp_rank": missing("dp_rank"),
            "register-null": refused_like("bootstrap_room: expected .+, got null"),
            "register-bad-string": refused("bootstrap_room must be an integer, not 'x'"),
            "register-non-json": refused_like("the body of POST /register_dp_rank is not JSON: .+"),
            "register-empty": refused("POST /register_dp_rank has no body; a JSON object is needed"),
            "register-array": refused_like("the body of POST /register_dp_rank must be a JSON object: .+ got array"),
            "register-nan": refused_like("the body of POST /register_dp_rank is not JSON: .+"),
            "register-infinity": refused_like("the body of POST /register_dp_rank is not JSON: .+"),
            "query-missing-key": missing("bootstrap_rooms"),
            "query-null-list": refused_like("bootstrap_rooms: expected array, got null"),
            "query-int": refused_like("bootstrap_rooms: expected array, got int"),
            "query-null-element": refused_like(r"bootstrap_rooms\[1\]: expected .+, got null"),
            "query-bad-string-element": refused("bootstrap_rooms must be an integer, not 'x'"),
            "query-non-json": refused_like("the body of POST /query_dp_ranks .+"),
            # Their limit is 1 MiB, ours 4 MiB.
            "query-body-over-1MiB": NO_ROOMS,
        },
    ),
    (
        MALFORMED,
        "engine-errors",
        {
            "missing-tp_rank": engine_refused(r"rank \(or the older tp_rank\) is missing"),
            "missing-info": engine_refused("transfer_engine_info is missing"),
            "missing-session_id": engine_refused("transfer_engine_info.session_id is missing"),
            "missing-weights": engine_refused("transfer_engine_info.weights_info_dict is missing"),
            "info-null": engine_refused("transfer_engine_info: expected .+, got null"),
            "info-string": engine_refused("transfer_engine_info: expected .+, got str"),
            "info-list": engine_refused("transfer_engine_info: expected .+, got array"),
            "tp_rank-list-unhashable": engine_refused("tp_rank: expected .+, got array"),
            "tp_rank-dict-unhashable": engine_refused("tp_rank: expected .+, got object"),
            "empty-object": engine_refused("transfer_engine_info is missing"),
        },
    ),
    (
        CONTENT_TYPE,
        "engine-errors",
        {
            "text-plain": OK,
            "no-content-type-json": OK,
            "get-77": published(77),
            "get-plus": published(0),
            "get-space": published(0),
        },
    ),
    (PROXY, "engine-errors", {"alias-on-main-engine-is-not-here": published(0)}),
    (PATHS, "engine-errors", {"docs-page-exposed": UNKNOWN_PATH, "trailing-slash": UNKNOWN_PATH}),
    (ENGINE_KEY, "engine-lenient-types", {"get-0-404": published(0)}),
    (
        RANGE,
        "engine-lenient-types",
        {"put-negative-rank": engine_refused("tp_rank must be between 0 and 65535, not -3")},
    ),
    (
        MALFORMED,
        "engine-lenient-types",
        {
            "put-float-rank": engine_refused("tp_rank: expected .+, got float"),
            "get-2": unpublished(2),
            "put-true-rank": engine_refused("tp_rank: expected .+, got bool"),
            "get-1": unpublished(1),
            "put-null-rank": engine_refused(r"rank \(or the older tp_rank\) is missing"),
            "put-null-session": engine_refused("transfer_engine_info.session_id: expected .+, got null"),
            "get-5": unpublished(5),
            "put-weights-list": engine_refused("transfer_engine_info.weights_info_dict: expected .+, got array"),
            "get-6": unpublished(6),
            "put-float-values": engine_refused(
                r"transfer_engine_info.weights_info_dict\[...\].*: expected .+, got float"
            ),
            "get-8": unpublished(8),
            "put-nan": engine_refused("the body of PUT /register_transfer_engine_info is not JSON: .+"),
            "get-10-nan": unpublished(10),
        },
    ),
]

DIFFERENCES: dict[str, Difference] = {
    f"{group}/{name}": Difference(answer.status, answer.content_type, answer.body, reason)
    for reason, group, answers in BY_RULE
    for name, answer in answers.items()
}
