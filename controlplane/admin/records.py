"""Records as the admin shows them: to look at, never to change, without what must stay secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import DateTimeField, FloatField, Model, QuerySet
from django.http import HttpRequest, HttpResponse

from controlplane.access.roles import Role
from controlplane.databases import READER, TRAFFIC
from controlplane.models import Instance

from . import showing
from .audit import note
from .rights import role_on
from .windows import BoundedChangeList, BoundedPaginator

MOST_FOUND_INSTANCES = 200


class Record(admin.ModelAdmin):
    """A table that somebody else writes. Read through the query-only alias, so that not even a mistake here writes it."""

    least: ClassVar[Role] = Role.VIEWER
    """Who may look."""
    hidden: ClassVar[tuple[str, ...]] = ()
    """Columns that are never loaded: secrets, and what is too large for a page."""
    json: ClassVar[tuple[str, ...]] = ()
    """Columns of JSON text."""
    window: ClassVar[int | None] = None
    """For journals: how many of the newest rows are listed."""
    number: ClassVar[str | None] = None
    """For tables that know instances by number: another column of numbers to search by."""
    address: ClassVar[str | None] = None
    """The column that names a row in URLs, where the primary key must not be seen."""

    actions: Any = None
    list_per_page = 100
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        fields = {field.name: field for field in model._meta.concrete_fields if field.name not in self.hidden}
        # Who keeps the name beside the number shows the name.
        skipped = "instance_id" if "instance" in fields else None
        self.columns = tuple(self._shown(field) for name, field in fields.items() if name != skipped)
        # Searched by names of instances, although the table knows numbers.
        self.by_id = not self.search_fields and any(f.name == "instance_id" for f in model._meta.concrete_fields)

    def _shown(self, field: Any) -> str | Callable[[Any], Any]:
        if field.name == "instance_id":
            return showing.instance_by_id
        if field.name == "group":
            return showing.group
        if field.name in self.json:
            return showing.as_json(field.name)
        if isinstance(field, FloatField | DateTimeField) and not field.name.endswith("_seconds"):
            return showing.when(field.name)
        return str(field.name)

    def title(self, row: Any) -> str:
        """What a page about one row is headed with."""
        return f"{self.opts.verbose_name} {row.pk}"

    # --- Who may ---------------------------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return role_on(request) >= self.least

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        # `?digest__startswith=` would tell a secret letter by letter.
        column = lookup.split("__")[0]
        if (self.opts.pk.name if column == "pk" else column) in self.hidden or "\x00" in value:
            return False
        return super().lookup_allowed(lookup, value, request)

    # --- What is read ----------------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        alias = TRAFFIC if getattr(self.model, "traffic", False) else READER
        return super().get_queryset(request).using(alias).defer(*self.hidden)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> tuple[Any, bool]:
        if not self.by_id or not search_term:
            return super().get_search_results(request, queryset, search_term)
        if self.number and search_term.isdecimal() and len(search_term) < 19:
            return queryset.filter(**{self.number: int(search_term)}), False
        # Asked apart: the table may be in another database than the names.
        named = Instance.objects.using(READER).filter(name__icontains=search_term).values_list("pk", flat=True)
        return queryset.filter(instance_id__in=list(named[:MOST_FOUND_INSTANCES])), False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return super().get_object(request, object_id, from_field or self.address)

    def get_search_fields(self, request: HttpRequest) -> Any:
        # The box is shown when there is anything to search by.
        return ("instance_id",) if self.by_id else super().get_search_fields(request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedChangeList]:
        return BoundedChangeList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.columns

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.columns

    # --- Pages -----------------------------------------------------------------------------------------------

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method not in ("GET", "HEAD") and not self.get_actions(request):
            action = f"{self.opts.model_name}.{request.POST.get('action') or 'change'}"
            selected = ", ".join(request.POST.getlist(ACTION_CHECKBOX_NAME))
            sentence = "not here, or not for this role"
            note(request, action, selected, status=403, outcome=sentence, allowed=False)
            raise PermissionDenied(sentence)
        return super().changelist_view(request, extra_context)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        if obj is not None:
            title = self.title(obj)
            context |= {"title": title[:1].upper() + title[1:], "subtitle": None}
        return super().render_change_form(request, context, add, change, form_url, obj)
