"""What the real clients do, by name. Each scenario is a generator of facts; the tests judge them.

Between two yields the test may act: kill the server, freeze it, start it again.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tests.compat.scenarios import (
    failures,
    handshake,
    mapping,
    observed,
    operating,
    oracle,
    registration,
    rooms,
    tenancy,
    weights,
)

SCENARIOS: dict[str, Callable[..., Iterator[Any]]] = {
    "registration": registration.register_and_resolve,
    "duplicate": registration.register_one_rank_twice,
    "late_server": registration.register_before_the_server_is_there,
    "mapping": mapping.every_decode_rank_of_every_size,
    "all_cp_ranks": mapping.decodes_that_pull_from_every_cp_rank,
    "disagreement": mapping.decodes_that_read_kv_differently,
    "rooms": rooms.register_and_query,
    "heartbeat": failures.heartbeat_until_the_server_is_gone,
    "restarted_prefill": failures.restart_a_prefill_that_a_decode_has_cached,
    "restarted_beside_hanging": failures.restart_a_prefill_beside_others_that_hang,
    "restarted_directory": failures.resolve_again_after_the_directory_was_killed,
    "tenancy": tenancy.name_an_instance_in_bootstrap_host,
    "weights": weights.register_and_load,
    "operating": operating.register_and_restart,
    "gave_up": operating.register_and_give_up,
    "one_by_one": operating.register_one_by_one,
    "observed": observed.register_restart_and_die,
    "observed_double_count": observed.count_one_rank_twice,
    "rank_mapping_oracle": oracle.compare_every_combination,
    "compatibility_oracle": handshake.compare_many_pairs,
}
