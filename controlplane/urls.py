"""Paths of the web process."""

from django.contrib import admin
from django.urls import path

from controlplane.access.views import sign_in
from controlplane.web.health import livez, readyz
from controlplane.web.home import home

urlpatterns = [
    path("", home, name="home"),
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("sign-in/<str:token>/", sign_in, name="sign-in"),
    path("admin/", admin.site.urls),
]
