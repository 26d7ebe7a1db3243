"""Paths of the pages: each module of views lists its own."""

from itertools import chain

from dashboard.views import activity, drains, events, gateways, overview, pairs, rooms, tokens, weights

AREAS = (overview, rooms, pairs, drains, weights, gateways, events, activity, tokens)

urlpatterns = list(chain.from_iterable(area.urlpatterns for area in AREAS))
