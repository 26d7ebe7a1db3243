"""Drains, gateways and routers as CSV, bounded, with a last line that says what was left out."""

from __future__ import annotations

from django.urls import path

from controlplane.domain.names import check_name
from controlplane.queries import drains, gateways, routers
from dashboard.presenters.sheets import sheet

from .sheets import MOST, Sheet


class DrainsSheet(Sheet):
    name = "drains"

    def text(self) -> str:
        instance = self.request.GET.get("instance", "").strip()
        if instance:
            check_name(instance)
        found = drains.listing(instance=instance or None, limit=MOST + 1)
        columns = ["drain", "instance", "dp", "role", "desired", "progress", "safe_to_delete", "launch", "blockers"]
        columns += ["actor", "reason", "min_ready", "cordon_revision"]
        columns += ["started_at", "deadline_at", "checked_at", "empty_at", "ended_at", "ended_reason"]
        rows = (
            [
                row.id,
                row.instance,
                row.group,
                row.role,
                row.intent,
                row.progress,
                row.safe_to_delete,
                row.launch,
                "; ".join(row.blockers),
                row.actor,
                row.reason,
                row.min_ready,
                row.cordon_revision,
                row.started_at,
                row.deadline_at,
                row.checked_at,
                row.empty_at,
                row.ended_at,
                row.ended_reason,
            ]
            for row in found[:MOST]
        )
        return sheet(columns, rows, more=f"only the {MOST} newest are in this file" if len(found) > MOST else "")


class GatewaysSheet(Sheet):
    name = "gateways"

    def text(self) -> str:
        found = gateways.listing(left=True)
        columns = ["gateway", "url", "state", "ledger", "acknowledged", "behind", "open_breakers", "lease_seconds"]
        columns += ["joined_at", "seen_at", "left_at"]
        rows = (
            [
                row.name,
                row.url,
                row.state(self.now),
                row.acknowledged_ledger,
                row.acknowledged_revision,
                row.behind,
                row.open_breakers,
                row.lease_seconds,
                row.joined_at,
                row.seen_at,
                row.left_at,
            ]
            for row in found[:MOST]
        )
        return sheet(columns, rows, more=f"only {MOST} of {len(found)} gateways are here" if len(found) > MOST else "")


class RoutersSheet(Sheet):
    """One line for each instance of a router, since that is what is in step or not."""

    name = "routers"

    def text(self) -> str:
        columns = ["router", "url", "state", "problem", "checked_at", "restarts", "instance", "wanted", "present"]
        columns += ["worker", "why", "changed_at"]
        rows = [
            [
                row.name,
                row.url,
                row.state,
                row.problem,
                row.checked_at,
                row.restarts,
                member.instance,
                member.wanted,
                member.present,
                member.worker_url,
                member.sentence,
                member.changed_at,
            ]
            for row in routers.listing()
            for member in row.members
        ]
        more = f"only {MOST} of {len(rows)} workers are in this file" if len(rows) > MOST else ""
        return sheet(columns, rows[:MOST], more=more)


urlpatterns = [
    path("drains.csv", DrainsSheet.as_view(), name="drains-csv"),
    path("gateways.csv", GatewaysSheet.as_view(), name="gateways-csv"),
    path("routers.csv", RoutersSheet.as_view(), name="routers-csv"),
]
