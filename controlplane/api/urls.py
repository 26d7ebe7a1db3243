"""Paths of the API. Whatever is not here is a problem document, never a page."""

from django.urls import path, re_path
from django.views.generic import RedirectView

from . import converters  # noqa: F401  (registers what stands in the paths)
from .handlers import nothing_here
from .views import (
    access,
    actions,
    alarms,
    clockwork,
    docs,
    events,
    evidence,
    explaining,
    gateways,
    inside,
    instances,
    operations,
    pairs,
    retention,
    rooms,
)

from .views import drains, routers, suspecting  # isort: skip
from .waiting import long_poll

V1 = "v1/"
urlpatterns = [
    path(V1 + "fleet", events.Fleet.as_view()),
    path(V1 + "events", long_poll(events.Events, ready=lambda said: bool(said["items"]))),
    path(V1 + "instances", instances.Instances.as_view()),
    path(V1 + "instances/<name:name>", instances.OneInstance.as_view()),
    path(V1 + "instances/<name:name>/launches", inside.Launches.as_view()),
    path(V1 + "instances/<name:name>/ranks", inside.Ranks.as_view()),
    path(V1 + "instances/<name:name>/workers", inside.Workers.as_view()),
    path(V1 + "instances/<name:name>/engine-info", inside.EngineInfo.as_view()),
    path(V1 + "instances/<name:name>/rooms", rooms.RoomsInside.as_view()),
    path(V1 + "instances/<name:name>/suspect", suspecting.Suspect.as_view()),
    *(path(f"{V1}instances/<name:name>/{word}", view.as_view()) for word, view in actions.ACTIONS.items()),
    path(V1 + "instances/<name:name>/purge", retention.Purge.as_view()),
    path(V1 + "stale", retention.Stale.as_view()),
    path(V1 + "archive", retention.Archive.as_view()),
    path(V1 + "archive/purge", retention.PurgeArchive.as_view()),
    path(V1 + "retention", retention.Retention.as_view()),
    path(V1 + "drains", drains.Drains.as_view()),
    path(V1 + "drains/<digits:drain>", drains.OneDrain.as_view()),
    path(
        V1 + "operations/<operation:operation>",
        long_poll(operations.OneOperation, ready=lambda said: bool(said["ended"])),
    ),
    path(V1 + "rooms", rooms.Rooms.as_view()),
    path(V1 + "rooms/<room:room>", rooms.OneRoom.as_view()),
    path(V1 + "collisions", rooms.Collisions.as_view()),
    path(V1 + "reuses", rooms.Reuses.as_view()),
    path(V1 + "gateways", gateways.Gateways.as_view()),
    path(V1 + "gateways/<name:gateway>", gateways.OneGateway.as_view()),
    path(V1 + "gateways/<name:gateway>/acknowledge", gateways.Acknowledged.as_view()),
    path(V1 + "gateways/<name:gateway>/breakers", gateways.ReportBreakers.as_view()),
    path(V1 + "gateways/<name:gateway>/open-rooms", gateways.ReportOpenRooms.as_view()),
    path(V1 + "gateways/<name:gateway>/outcomes", gateways.ReportOutcomes.as_view()),
    path(V1 + "workers/open-rooms", gateways.WorkersOpenRooms.as_view()),
    path(V1 + "workers/evidence", evidence.WorkersEvidence.as_view()),
    path(V1 + "routers", routers.Routers.as_view()),
    path(V1 + "routers/<name:router>", routers.OneRouter.as_view()),
    path(V1 + "alarms", alarms.Alarms.as_view()),
    path(V1 + "alarms/notices", alarms.Notices.as_view()),
    path(V1 + "alarms/<digits:alarm>", alarms.OneAlarm.as_view()),
    path(V1 + "alarms/<digits:alarm>/acknowledge", alarms.Acknowledge.as_view()),
    path(V1 + "tokens", access.Tokens.as_view()),
    path(V1 + "tokens/<token:key>", access.OneToken.as_view()),
    path(V1 + "attempts", access.Attempts.as_view()),
    path(V1 + "resolve", pairs.Resolve.as_view()),
    path(V1 + "clockwork", clockwork.Clockwork.as_view()),
    path(V1 + "compatibility", pairs.Pairs.as_view()),
    path(V1 + "explain/routable", explaining.Routable.as_view()),
    path(V1 + "explain/instance/<name:name>", explaining.Explanation.as_view()),
    path(V1 + "explain/room/<room:room>", evidence.RoomExplanation.as_view()),
    path("schema/", docs.Schema.as_view(), name="api-schema"),
    path("docs/", docs.Docs.as_view(), name="api-docs"),
    path("docs", RedirectView.as_view(pattern_name="api-docs")),
    re_path(r"^(?P<rest>.*)$", nothing_here),
]
