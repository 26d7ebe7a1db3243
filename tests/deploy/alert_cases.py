"""For each alert: series that let it fire, what it says then, and series of the same kind that must leave it quiet.

Values are in promtool's notation, one every 15 seconds: `0x40` is a zero 41 times, `0+5x40` grows by 5 each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Series = Mapping[str, str]
B = 'job="pdcp-bootstrap", instance="b:1"'
WEB = 'job="pdcp-web", instance="w:1"'
FLEET = 'job="pdcp-fleet", instance="w:1"'


@dataclass(frozen=True)
class Case:
    """At `at`, with `fires` it says `summary` with these `labels` (besides its severity); with `quiet` it says nothing."""

    fires: Series
    at: str
    summary: str
    quiet: Series
    labels: Mapping[str, str] = field(default_factory=dict)


def labels(text: str) -> dict[str, str]:
    """
    >>> labels('job="pdcp-web", instance="w:1"')
    {'job': 'pdcp-web', 'instance': 'w:1'}
    """
    return {name: value.strip('"') for name, _, value in (pair.strip().partition("=") for pair in text.split(","))}


def one(metric: str, more: str, fires: str, quiet: str, at: str, summary: str, where: str = FLEET) -> Case:
    """An alert about a single series, whose labels it keeps."""
    own = f"{more}, {where}" if more else where
    series = f"{metric}{{{own}}}"
    return Case({series: fires}, at, summary, {series: quiet}, labels(own))


def waits(phase: str, slow: str, fast: str) -> Series:
    """A histogram of waits of which each 15 s ten end: `slow` and `fast` are how many of them within 5 and 60 s."""
    named = f'pdcp_wait_seconds_bucket{{phase="{phase}", {B}, le='
    return {
        f'{named}"5.0"}}': slow,
        f'{named}"60.0"}}': fast,
        f'{named}"120.0"}}': "0+10x80",
        f'{named}"+Inf"}}': "0+10x80",
    }


CASES: Mapping[str, Case] = {
    # --- processes
    "PdcpTargetDown": Case(
        {f"up{{{WEB}}}": "0x40"},
        "2m",
        "pdcp-web at w:1 cannot be scraped",
        {f"up{{{WEB}}}": "1 1 0 0 1x40", 'up{job="node", instance="n:1"}': "0x40"},
        labels(WEB),
    ),
    "PdcpNoLeader": Case(
        {f"pdcp_leading{{{B}}}": "0x40"},
        "1m",
        "No bootstrap process leads",
        {f"pdcp_leading{{{B}}}": "0x40", 'pdcp_leading{job="pdcp-bootstrap", instance="b:2"}': "1x40"},
    ),
    "PdcpTwoLeaders": Case(
        {f"pdcp_leading{{{B}}}": "1x40", 'pdcp_leading{job="pdcp-bootstrap", instance="b:2"}': "1x40"},
        "2m",
        "2 bootstrap processes say that they lead",
        {f"pdcp_leading{{{B}}}": "1 1 1 0x40", 'pdcp_leading{job="pdcp-bootstrap", instance="b:2"}': "0 0 1 1x40"},
    ),
    "PdcpDatabaseAway": one(
        "pdcp_facts_readable", "", "0x40", "1 0 0 1x40", "2m", "pdcp-bootstrap at b:1 cannot read the database", B
    ),
    "PdcpBrokerAway": one("pdcp_broker_reachable", "", "0x40", "1 0 0 1x40", "2m", "Redis does not answer"),
    "PdcpConnectionsNearLimit": Case(
        {f"pdcp_connections{{{B}}}": "900x40", f"pdcp_connection_limit{{{B}}}": "1000x40"},
        "6m",
        "b:1 has 90% of its connections",
        {f"pdcp_connections{{{B}}}": "700x40", f"pdcp_connection_limit{{{B}}}": "1000x40"},
        labels(B),
    ),
    "PdcpSocketsNearLimit": Case(
        {f"pdcp_sockets{{{WEB}}}": "900x40", f"pdcp_socket_limit{{{WEB}}}": "1000x40"},
        "6m",
        "w:1 has 90% of its live sockets",
        {f"pdcp_sockets{{{WEB}}}": "100x40", f"pdcp_socket_limit{{{WEB}}}": "1000x40"},
        labels(WEB),
    ),
    "PdcpWebErrors": Case(
        {
            f'pdcp_http_requests_total{{area="api", method="GET", status="200", {WEB}}}': "0+75x80",
            f'pdcp_http_requests_total{{area="api", method="GET", status="503", {WEB}}}': "0+25x80",
        },
        "12m",
        "25% of api requests at w:1 fail",
        {
            f'pdcp_http_requests_total{{area="api", method="GET", status="404", {WEB}}}': "0+97x80",
            f'pdcp_http_requests_total{{area="api", method="GET", status="500", {WEB}}}': "0+3x80",
        },
        {"area": "api", "instance": "w:1"},
    ),
    # --- instances
    "PdcpNoneRoutable": Case(
        {
            f'pdcp_instances_routable{{role="decode", {FLEET}}}': "0x40",
            f'pdcp_instances{{role="decode", intent="enabled", {FLEET}}}': "2x40",
        },
        "2m",
        "No decode instance can be sent work",
        {
            f'pdcp_instances_routable{{role="decode", {FLEET}}}': "0x40",
            f'pdcp_instances{{role="decode", intent="enabled", {FLEET}}}': "0x40",
            f'pdcp_instances{{role="decode", intent="draining", {FLEET}}}': "2x40",
            f'pdcp_instances_routable{{role="seed", {FLEET}}}': "0x40",
            f'pdcp_instances{{role="seed", intent="enabled", {FLEET}}}': "2x40",
        },
        {"role": "decode", **labels(FLEET)},
    ),
    "PdcpInstanceUnhealthy": one(
        "pdcp_instance_healthy", 'pd_instance="p", role="prefill"', "0x40", "1 0 0 0 0 1x40", "3m", "/health of p is 503", B
    ),
    "PdcpInstanceIncomplete": Case(
        {
            f'pdcp_instance_ranks_registered{{pd_instance="p", role="prefill", {B}}}': "7x40",
            f'pdcp_instance_ranks_expected{{pd_instance="p", role="prefill", {B}}}': "8x40",
        },
        "6m",
        "p lacks ranks",
        {
            f'pdcp_instance_ranks_registered{{pd_instance="p", role="prefill", {B}}}': "0 3 5 8x40",
            f'pdcp_instance_ranks_expected{{pd_instance="p", role="prefill", {B}}}': "8x40",
            f'pdcp_instance_ranks_registered{{pd_instance="q", role="prefill", {B}}}': "0x40",
            f'pdcp_instance_ranks_expected{{pd_instance="q", role="prefill", {B}}}': "0x40",
        },
        {"pd_instance": "p", "role": "prefill", **labels(B)},
    ),
    "PdcpRanksSilent": one(
        "pdcp_instances_seen",
        'role="prefill", state="degraded"',
        "2x40",
        "0 2 2 0x40",
        "3m",
        "2 prefill instances have ranks that do not answer",
    ),
    "PdcpEngineDown": one(
        "pdcp_instance_engine_up", 'pd_instance="p"', "0x40", "1 0 0 1x40", "2m", "The engine of p is not well"
    ),
    "PdcpCandidateStuck": one(
        "pdcp_instance_ranks_candidate",
        'pd_instance="p", role="prefill"',
        "4x80",
        "4x50 0x30",
        "16m",
        "A new launch of p waits to take over",
        B,
    ),
    "PdcpInstanceFlaps": one(
        "pdcp_instance_launch",
        'pd_instance="p", role="prefill"',
        "1x20 2x20 3x20 4x20 5x20",
        "1x20 2x80",
        "26m",
        "p was started 4 times in half an hour",
        B,
    ),
    "PdcpVerdictsPaused": one(
        "pdcp_verdicts_paused", "", "1x40", "0 1 1 0x40", "2m", "Verdicts are paused: most ranks fail together", B
    ),
    "PdcpProbesStopped": Case(
        {f"pdcp_probe_sweeps_total{{{B}}}": "40x40", f"pdcp_leading{{{B}}}": "1x40"},
        "5m",
        "The process at b:1 leads and probes nobody",
        # Only launches are probed there (an interval of 0), and here all goes well.
        {
            f"pdcp_probe_sweeps_total{{{B}}}": "1x40",
            f"pdcp_leading{{{B}}}": "1x40",
            'pdcp_probe_sweeps_total{job="pdcp-bootstrap", instance="b:2"}': "0+2x40",
            'pdcp_leading{job="pdcp-bootstrap", instance="b:2"}': "1x40",
        },
        labels(B),
    ),
    "PdcpSweepSlow": one(
        "pdcp_probe_sweep_seconds", "", "20x40", "20 20 8x40", "3m", "A round of probes takes 20s", B
    ),
    # --- wires
    "PdcpRefusals": Case(
        {f'pdcp_refusals_total{{reason="malformed", {B}}}': "0+30x80"},
        "12m",
        "More than one request a second is refused: malformed",
        {f'pdcp_refusals_total{{reason="malformed", {B}}}': "0+3x80"},
        {"reason": "malformed"},
    ),
    "PdcpTopologyWaitLong": Case(
        waits("topology", "0x80", "0+5x80"),
        "16m",
        "Decodes wait 1m 48s for prefill instances to be complete",
        waits("topology", "0+5x80", "0+10x80"),
    ),
    "PdcpRoomWaitLong": Case(
        waits("room", "0x80", "0+10x80"),
        "12m",
        "Decodes wait 54.5s for rooms to be bound",
        waits("room", "0+10x80", "0+10x80"),
    ),
    "PdcpWaitsGivenUp": Case(
        {f'pdcp_waits_given_up_total{{phase="room", {B}}}': "0+2x80"},
        "15m",
        "120 waits for a room ended without an answer",
        {f'pdcp_waits_given_up_total{{phase="room", {B}}}': "0 0 0 5x80"},
        {"phase": "room"},
    ),
    "PdcpRoomsNearLimit": Case(
        {f"pdcp_rooms{{{B}}}": "1900000x40", f"pdcp_room_limit{{{B}}}": "2000000x40"},
        "6m",
        "95% of the bindings that may be held are held",
        {f"pdcp_rooms{{{B}}}": "1000000x40", f"pdcp_room_limit{{{B}}}": "2000000x40"},
        labels(B),
    ),
    "PdcpRoomsEvicted": one(
        "pdcp_rooms_evicted_total", "", "0+3x40", "7x40", "5m", "60 bindings were dropped before their time", B
    ),
    "PdcpRoomCollisions": one(
        "pdcp_room_collisions_total", "", "0+1x80", "7x80", "10m", "40 rooms were bound twice to different DP ranks", B
    ),
    # --- ledger
    "PdcpCommitsFail": Case(
        {f'pdcp_commit_failures_total{{recorder="facts", why="away", {B}}}': "0 0 0 1x40"},
        "3m",
        "Commits of facts failed: away",
        {f'pdcp_commit_failures_total{{recorder="facts", why="away", {B}}}': "3x40"},
        {"recorder": "facts", "why": "away"},
    ),
    "PdcpCommitsSlow": Case(
        {
            f'pdcp_commit_seconds_bucket{{recorder="facts", le="1.0", {B}}}': "0+0x80",
            f'pdcp_commit_seconds_bucket{{recorder="facts", le="2.0", {B}}}': "0+10x80",
            f'pdcp_commit_seconds_bucket{{recorder="facts", le="+Inf", {B}}}': "0+10x80",
        },
        "12m",
        "Commits of facts take 1.99s",
        {
            f'pdcp_commit_seconds_bucket{{recorder="facts", le="1.0", {B}}}': "0+10x80",
            f'pdcp_commit_seconds_bucket{{recorder="facts", le="2.0", {B}}}': "0+10x80",
            f'pdcp_commit_seconds_bucket{{recorder="facts", le="+Inf", {B}}}': "0+10x80",
        },
        {"recorder": "facts"},
    ),
    "PdcpReaderBehind": one(
        "pdcp_ledger_reader_behind_revisions",
        'reader="stream"',
        "5000x40",
        "5000 5000 0x40",
        "2m",
        "stream at w:1 is 5000 revisions behind",
        WEB,
    ),
    "PdcpRequestsUnanswered": one(
        "pdcp_request_oldest_seconds", "", "0+15x40", "0 15 0x40", "6m", "A request of an operator waits for 6m 0s"
    ),
    # --- operating
    "PdcpDrainOverdue": one(
        "pdcp_drains", 'progress="overdue"', "1x40", "0x40", "1m", "1 drains are past their deadline"
    ),
    "PdcpDrainStuck": one(
        "pdcp_drain_age_seconds",
        'pd_instance="p", dp="all", progress="waiting"',
        "7290+15x40",
        "600+15x40",
        "1m",
        "The drain of p (all) has waited 2h 2m 30s",
    ),
    "PdcpGatewaySilent": one("pdcp_gateways", 'state="silent"', "1x40", "1 1 0x40", "3m", "1 gateways are silent"),
    "PdcpGatewayBehind": one(
        "pdcp_gateway_behind_revisions", 'gateway="gw"', "2000x40", "2000 2000 0x40", "3m", "gw is 2000 revisions behind"
    ),
    "PdcpRouterAway": one("pdcp_routers", 'state="away"', "1x40", "1 1 0x40", "3m", "1 routers do not answer"),
    "PdcpWorkersLate": one(
        "pdcp_worker_leases", 'state="late"', "3x40", "3 3 3 0x40", "6m", "3 worker processes send no heartbeats"
    ),
    "PdcpTaskLate": one(
        "pdcp_task_late_seconds", 'task="check_drains"', "0+15x40", "0 0 15 30 0x40", "8m",
        "The task check_drains is overdue by 8m 0s",
    ),
    "PdcpTaskFails": one(
        "pdcp_task_failures", 'task="check_drains"', "3x40", "2x40", "2m", "The task check_drains has failed 3 times in a row"
    ),
    "PdcpQueueGrows": one("pdcp_queue_length", "", "500x40", "500 20x40", "3m", "500 messages wait for a Celery worker"),
    "PdcpAlarmUnheard": Case(
        {f'pdcp_alarms{{severity="critical", acknowledged="no", {FLEET}}}': "1x40"},
        "6m",
        "1 critical alarms are open, and nobody has acknowledged them",
        {
            f'pdcp_alarms{{severity="critical", acknowledged="yes", {FLEET}}}': "1x40",
            f'pdcp_alarms{{severity="warning", acknowledged="no", {FLEET}}}': "1x40",
        },
        {"severity": "critical", "acknowledged": "no", **labels(FLEET)},
    ),
    "PdcpAlarmsNotDelivered": one(
        "pdcp_alarm_notice_oldest_seconds", "", "0+15x40", "0 15 30 0x40", "8m",
        "The alarm webhook has taken nothing for 8m 0s",
    ),
}  # fmt: skip
