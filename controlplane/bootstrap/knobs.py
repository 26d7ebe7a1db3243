"""What settings decide about a term of the bootstrap process."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from controlplane.access.gates import Gates, gates
from controlplane.probes.networks import Network


@dataclass(frozen=True, slots=True)
class Knobs:
    """What settings decide; seconds and bytes as their names say."""

    host: str
    kv_port: int
    engine_port: int
    own_ports: frozenset[int]
    probe_networks: tuple[Network, ...]
    probe_interval_seconds: float
    probe_timeout_seconds: float
    gates: Gates
    room_ttl_seconds: float
    room_limit: int
    room_tombstone_seconds: float
    room_tombstone_limit: int
    evidence_share: float
    kv_body_limit: int
    engine_body_limit: int
    upload_budget: int
    stop_delay_seconds: float


def knobs() -> Knobs:
    return Knobs(
        host=settings.PDCP_BOOTSTRAP_HOST.removeprefix("[").removesuffix("]"),
        kv_port=settings.PDCP_KV_PORT,
        engine_port=settings.PDCP_ENGINE_INFO_PORT,
        own_ports=frozenset({settings.PDCP_WEB_PORT, *settings.PDCP_METRICS_PORTS}),
        probe_networks=settings.PDCP_PROBE_NETWORKS,
        probe_interval_seconds=settings.PDCP_PROBE_INTERVAL_SECONDS,
        probe_timeout_seconds=settings.PDCP_PROBE_TIMEOUT_SECONDS,
        gates=gates(),
        room_ttl_seconds=settings.PDCP_ROOM_TTL_SECONDS,
        room_limit=settings.PDCP_ROOM_LIMIT,
        room_tombstone_seconds=settings.PDCP_ROOM_TOMBSTONE_SECONDS,
        room_tombstone_limit=settings.PDCP_ROOM_TOMBSTONE_LIMIT,
        evidence_share=settings.PDCP_EVIDENCE_SHARE,
        kv_body_limit=settings.PDCP_KV_BODY_LIMIT_BYTES,
        engine_body_limit=settings.PDCP_ENGINE_BODY_LIMIT_BYTES,
        upload_budget=settings.PDCP_UPLOAD_BUDGET_BYTES,
        stop_delay_seconds=settings.PDCP_STOP_DELAY_SECONDS,
    )
