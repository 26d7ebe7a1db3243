"""For each counter and histogram there is a test that has seen it move by exactly what happened: none is decorative."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from controlplane.metrics import catalogue
from controlplane.metrics.metric import Kind
from tests.support.processes import ROOT

WIRES = "cases/test_metrics.py::test_OPS_01_every_counter_of_the_wires_moves_by_exactly_what_happened"
ROOMS = "cases/test_metrics.py::test_ROOM_06_bindings_expire_are_evicted_and_rejected_and_each_is_counted"
PROBES = "cases/test_metrics.py::test_OPS_01_probes_are_counted_by_what_was_heard_and_timed"
AWAY = (
    "cases/test_metrics.py::"
    "test_OPS_01_what_could_not_be_stored_is_counted_and_the_scrape_says_that_the_database_is_away"
)
WAITS = "cases/test_metrics.py::test_OPS_04_waits_for_the_topology_and_for_rooms_are_two_histograms_of_who_had_to_wait"
OUTGOING = "controlplane/probes/test_counting.py::test_an_answer_of_any_status_is_an_answer_and_is_timed"
COMMITS = "controlplane/bootstrap/test_commits.py::test_a_batch_that_is_stored_is_one_transaction_of_so_many_operations"
RUNGS = "controlplane/commands/test_evidence.py::test_rungs_are_counted_and_timed_whether_they_are_kept_or_not"
WEB = (
    "controlplane/web/test_metrics.py::"
    "test_of_two_processes_each_counts_its_own_requests_and_both_tell_the_same_of_the_fleet"
)
TASKS = "controlplane/tasks/test_exposure.py::test_it_tells_of_its_rounds_and_gives_its_port_back_when_it_is_killed"
CHRONICLE = "controlplane/bootstrap/test_chronicle.py::"

SEEN_MOVING: Mapping[str, str] = {
    "pdcp_log_lines_suppressed_total": "cases/test_metrics.py::"
    "test_OPS_06_the_true_count_of_what_the_log_left_out_is_a_metric",
    "pdcp_outgoing_requests_total": OUTGOING,
    "pdcp_outgoing_request_seconds": OUTGOING,
    "pdcp_registrations_total": WIRES,
    "pdcp_engine_publications_total": WIRES,
    "pdcp_heartbeats_total": WIRES,
    "pdcp_lookups_total": WIRES,
    "pdcp_lookup_misses_total": WIRES,
    "pdcp_refusals_total": WIRES,
    "pdcp_health_polls_total": WIRES,
    "pdcp_connections_closed_for_room_total": "controlplane/bootstrap/test_measuring.py::"
    "test_connections_that_were_closed_for_room_are_counted",
    "pdcp_rooms_bound_total": WIRES,
    "pdcp_room_collisions_total": WIRES,
    "pdcp_rooms_asked_total": WIRES,
    "pdcp_rooms_answered_total": WIRES,
    "pdcp_rooms_expired_total": ROOMS,
    "pdcp_rooms_evicted_total": ROOMS,
    "pdcp_rooms_rejected_total": ROOMS,
    "pdcp_rooms_reused_total": ROOMS,
    "pdcp_wait_seconds": WAITS,
    "pdcp_waits_given_up_total": "controlplane/bootstrap/test_measuring.py::"
    "test_waits_that_nobody_ends_are_given_up_and_counted",
    "pdcp_commit_seconds": COMMITS,
    "pdcp_commit_operations": COMMITS,
    "pdcp_commit_failures_total": AWAY,
    "pdcp_operations_not_stored_total": AWAY,
    "pdcp_events_total": CHRONICLE + "test_it_counts_what_is_committed_once_whoever_wrote_it",
    "pdcp_probes_total": PROBES,
    "pdcp_probe_seconds": PROBES,
    "pdcp_probe_sweeps_total": PROBES,
    "pdcp_launch_ready_seconds": CHRONICLE
    + "test_a_launch_is_timed_from_its_first_rank_and_one_that_began_before_us_too",
    "pdcp_unhealthy_seconds": CHRONICLE + "test_an_outage_is_timed_when_it_is_over",
    "pdcp_drain_seconds": CHRONICLE + "test_a_drain_is_timed_by_how_it_ended",
    "pdcp_http_requests_total": WEB,
    "pdcp_http_request_seconds": WEB,
    "pdcp_sockets_ended_total": "controlplane/web/test_metrics.py::"
    "test_live_sockets_are_told_while_they_are_open_and_how_they_ended",
    "pdcp_reported_requests_total": "controlplane/web/test_metrics.py::"
    "test_requests_that_a_gateway_reports_are_counted_by_how_they_ended",
    "pdcp_reported_rungs_total": RUNGS,
    "pdcp_reported_rung_seconds": RUNGS,
    "pdcp_tasks_total": TASKS,
    "pdcp_task_seconds": TASKS,
    "pdcp_trimmed_rows_total": "controlplane/queries/test_figures.py::test_what_was_trimmed_is_told_by_what_it_was",
    "pdcp_task_rounds_total": "controlplane/queries/test_figures.py::"
    "test_every_scheduled_task_is_told_also_one_that_never_ran",
}


def test_no_counter_is_exported_that_no_test_has_seen_move():
    moving = {metric.name for metric in catalogue.every() if metric.kind is not Kind.GAUGE}
    assert moving == SEEN_MOVING.keys()


@pytest.mark.parametrize("where", sorted(set(SEEN_MOVING.values())))
def test_that_test_is_there(where: str):
    path, _, name = where.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in names
