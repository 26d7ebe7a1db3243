"""The paths that signing in needs around it."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path


def home(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.user.get_username() or "nobody")


site = admin.AdminSite()
urlpatterns = [
    path("", home, name="overview"),
    path("", include("controlplane.access.urls")),
    path("admin/", site.urls),
]
