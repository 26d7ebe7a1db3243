"""The first page: what runs here, on which ports, and the way to the admin."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def home(request: HttpRequest) -> HttpResponse:
    doors = [
        ("KV bootstrap", "PDCP_KV_PORT", settings.PDCP_BOOTSTRAP_HOST, settings.PDCP_KV_PORT),
        (
            "Engine info bootstrap",
            "PDCP_ENGINE_INFO_PORT",
            settings.PDCP_BOOTSTRAP_HOST,
            settings.PDCP_ENGINE_INFO_PORT,
        ),
        ("Web", "PDCP_WEB_PORT", settings.PDCP_WEB_HOST, settings.PDCP_WEB_PORT),
    ]
    return render(request, "home.html", {"doors": doors})
