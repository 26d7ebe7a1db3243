"""Lists that stay quick whatever the size of their table: counts end at a limit, journals show their newest part."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import DataError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import capfirst

from .showing import names_of

COUNTED = 10_000
"""How far rows are counted, and so how far one can page."""

JOURNAL_ROWS = 20_000
"""How many of the newest rows of a journal are listed and searched. Older ones: by their number, or `manage.py`."""


class BoundedPaginator(Paginator):
    """Counts to `COUNTED`, not to the end of the table. `cut`: there are more."""

    cut = False

    @cached_property
    def count(self) -> int:
        # Unordered, or the database would sort everything for the sake of a number.
        found = cast(QuerySet[Any], self.object_list).order_by()[: COUNTED + 1].count()
        self.cut = found > COUNTED
        return int(min(found, COUNTED))


class ReadChangeList(ChangeList):
    """A list that is read before its page is begun. A number in its address that no column can hold is what every other
    nonsense there is to the admin: it leads back to the whole list."""

    def get_results(self, request: HttpRequest) -> None:
        try:
            super().get_results(request)
            self.result_list = list(self.result_list)
        except (OverflowError, DataError) as problem:
            raise IncorrectLookupParameters(problem) from problem


class BoundedChangeList(ReadChangeList):
    """A list that knows the names of the instances its rows speak of, and whether it shows all there is."""

    notice = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Nothing is picked from records, and a list in a popup names each row by its primary key, which may be hidden.
        self.is_popup = False
        self.title = str(capfirst(self.opts.verbose_name_plural))

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        window: int | None = cast(Any, self.model_admin).window
        if window is not None:
            newest = self.root_queryset.order_by("-pk").values_list("pk", flat=True).first()
            if newest is not None and newest > window:
                self.root_queryset = self.root_queryset.filter(pk__gt=newest - window)
                self.notice = f"The newest {window:,} are listed and searched."
        return super().get_queryset(request, exclude_parameters)

    def url_for_result(self, result: Any) -> str:
        address: str | None = cast(Any, self.model_admin).address
        if address is None:
            return super().url_for_result(result)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=(quote(getattr(result, address)),), current_app=self.model_admin.admin_site.name)

    def get_results(self, request: HttpRequest) -> None:
        page = cast(Any, self.model_admin)
        if page.by_id:
            self.search_help_text = (
                f"Search by the name of an instance{f', or by {page.number}' if page.number else ''}."
            )
        super().get_results(request)
        rows = self.result_list
        if getattr(self.paginator, "cut", False):
            self.notice = f"There are more than {COUNTED:,}: filter or search to see the others."
        if any(field.name == "instance_id" for field in self.opts.concrete_fields):
            names = names_of(list({row.instance_id for row in rows}))
            for row in rows:
                row.instance_name = names.get(row.instance_id, "")
