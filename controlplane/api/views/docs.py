"""The OpenAPI document, and a page that shows it from files of our own: no other host is asked for anything."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import TemplateHTMLRenderer

from controlplane.access.roles import READ

from .. import errors
from ..authentication import BySession, ByToken
from ..permissions import ByVerb

# `with_problem` is a hook of settings too; here it holds whatever they say.
HOOKS = {
    "POSTPROCESSING_HOOKS": [
        "controlplane.api.schema.with_problem",
    ],
}


class _Open:
    """What both have in common."""

    authentication_classes = [ByToken, BySession]
    permission_classes = [ByVerb]
    verbs = {"GET": READ}
    scope = "asked"
    http_method_names = ["get", "head"]

    def get_exception_handler(self) -> Any:
        return errors.handle


class Negotiation(DefaultContentNegotiation):
    """YAML or JSON as the client likes, YAML when it likes neither."""

    def filter_renderers(self, renderers: Any, format: str) -> Any:
        return [one for one in renderers if one.format == format] or renderers

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        try:
            return super().select_renderer(request, renderers, format_suffix)
        except (Http404, NotAcceptable):
            return renderers[0], renderers[0].media_type


class Schema(_Open, SpectacularAPIView):
    """The OpenAPI document of this API."""

    renderer_classes = [OpenApiYamlRenderer, OpenApiJsonRenderer]
    content_negotiation_class = Negotiation
    custom_settings = HOOKS


class Docs(_Open, SpectacularSwaggerSplitView):
    """The OpenAPI document as a page one can try things on."""

    renderer_classes = [TemplateHTMLRenderer]
    url_name = "api-schema"
    template_name = "api/docs.html"
