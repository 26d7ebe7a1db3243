"""Paths of the web process."""

from django.urls import include, path

from controlplane.admin.registry import site as admin_site
from controlplane.web.health import livez, readyz
from controlplane.web.home import home

urlpatterns = [
    path("", home, name="home"),
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("", include("controlplane.access.urls")),
    path("api/", include("controlplane.api.urls")),
    path("admin/", admin_site.urls),
]

# What fails before a view is reached is a problem document under /api/ too, and a page everywhere else.
handler400 = "controlplane.api.handlers.bad_request"
handler403 = "controlplane.api.handlers.permission_denied"
handler404 = "controlplane.api.handlers.page_not_found"
handler500 = "controlplane.api.handlers.server_error"
