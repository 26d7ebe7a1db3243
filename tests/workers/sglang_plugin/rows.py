"""What SGLang hands the plugin: the row of a rank, and its manager."""

from types import SimpleNamespace
from typing import Any

# fmt: off
ROW = {
    "attn_tp_size": 1, "attn_tp_rank": 0, "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1, "attn_dp_rank": 0,
    "pp_size": 1, "pp_rank": 0, "system_dp_size": 1, "system_dp_rank": 0, "rank_ip": "127.0.0.1", "rank_port": 4001,
    "page_size": 64, "kv_cache_dtype": "auto", "prefill_http_port": 30000,
}
# fmt: on


class Manager(SimpleNamespace):
    """What of a CommonKVManager the plugin reads."""

    def __init__(self, **facts: Any) -> None:
        at = {"attn_tp_rank": 0, "attn_cp_rank": 0, "pp_rank": 0, "attn_dp_rank": 0, "system_dp_size": 1}
        more = {"system_dp_rank": 0, "request_status": {}, "failure_records": {}}
        super().__init__(**{**at, **more, **facts})
