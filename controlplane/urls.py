"""Paths of the web process."""

from django.urls import include, path

from controlplane.admin.registry import site as admin_site
from controlplane.web.health import livez, readyz
from controlplane.web.metrics import metrics

urlpatterns = [
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, {"path": "/metrics"}, name="metrics"),
    path("metrics/fleet", metrics, {"path": "/metrics/fleet"}, name="fleet_metrics"),
    path("", include("controlplane.access.urls")),
    path("api/", include("controlplane.api.urls")),
    path("admin/", admin_site.urls),
    path("", include("dashboard.urls")),
]

# What fails before a view is reached is a problem document under /api/ too, and a page everywhere else.
handler400 = "dashboard.errors.bad_request"
handler403 = "dashboard.errors.permission_denied"
handler404 = "dashboard.errors.page_not_found"
handler500 = "dashboard.errors.server_error"
