"""Paths of the pages: each module of views lists its own."""

from itertools import chain

from dashboard.views import (
    acting,
    activity,
    alarms,
    cells,
    clockwork,
    draining_sheets,
    drains,
    event_files,
    events,
    gateways,
    instance,
    instance_forms,
    instance_sheets,
    overview,
    pairs,
    palette,
    rooms,
    router_forms,
    sheets,
    then,
    token_forms,
    tokens,
    weights,
)

AREAS = (
    instance_forms,
    router_forms,
    token_forms,
    alarms,
    acting,
    overview,
    rooms,
    pairs,
    drains,
    weights,
    gateways,
    instance,
    cells,
    instance_sheets,
    events,
    activity,
    clockwork,
    tokens,
    event_files,
    palette,
    then,
    sheets,
    draining_sheets,
)

urlpatterns = list(chain.from_iterable(area.urlpatterns for area in AREAS))
