"""Accounts and their roles, which admins alone see and change; and what they and machines sign in with, to look at."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from controlplane.access import attempts
from controlplane.access.roles import Role
from controlplane.databases import FACTS
from controlplane.queries.wording import listing

from .records import Record
from .rights import role_on, who
from .showing import when
from .windows import ReadChangeList

ROLE_GROUPS = tuple(role.name.lower() for role in Role if role)
ADMINS = Q(is_active=True) & (Q(is_superuser=True) | Q(groups__name=Role.ADMIN.name.lower()))
OTHERS_NAMED = 20


class ByAdmins(admin.ModelAdmin):
    """What admins administer. Every change is in the audit; live sockets hear of it by `access.signals`."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ReadChangeList

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return role_on(request) >= Role.ADMIN

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_view_permission(request)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._note(request, "add", obj, message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._note(request, "change", obj, message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for obj in queryset:
            self._note(request, "delete", obj, "")
        return super().log_deletions(request, queryset)

    def _note(self, request: HttpRequest, verb: str, obj: Any, message: Any) -> None:
        kept = partial(
            attempts.note,
            who(request),
            f"{self.opts.model_name}.{verb}",
            str(obj),
            allowed=True,
            status=200,
            outcome=_in_words(message),
        )
        transaction.on_commit(kept, using=FACTS)


class AccountForm(UserChangeForm):
    """Refuses to take the last administrator away: nobody could give the role back."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        groups = cleaned.get("groups")
        stays = cleaned.get("is_active") and (
            cleaned.get("is_superuser")
            or (groups is not None and any(group.name == Role.ADMIN.name.lower() for group in groups))
        )
        was = User.objects.using(FACTS).filter(ADMINS, pk=self.instance.pk).exists()
        if was and not stays and not User.objects.using(FACTS).filter(ADMINS).exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("This is the last active administrator: make another one first.")
        return cleaned


class UserAdmin(ByAdmins, DjangoUserAdmin):
    """`is_staff` and Django's permissions mean nothing here, so they are not shown: the role decides."""

    form = AccountForm
    list_display = ("username", "roles", "is_active", when("last_login"), "first_name", "last_name", "email")
    list_filter = ("is_active", "is_superuser", "groups")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        (
            "Role",
            {
                "fields": ("is_active", "groups", "is_superuser"),
                "description": "The groups viewer, operator and admin are the roles; a superuser is an admin."
                " Deactivate an account rather than delete it: the ledger and the audit speak of it.",
            },
        ),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )

    @admin.display(description="role")
    def roles(self, row: User) -> str:
        names = [group.name for group in row.groups.all()]
        return listing(["superuser", *names] if row.is_superuser else names, limit=8) or "none"

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Their tokens would go with them, and with those the record of who had access.
        return False

    def formfield_for_manytomany(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field is not None and db_field.name == "groups":
            field.widget = forms.CheckboxSelectMultiple(choices=field.widget.choices)
            field.help_text = ""
        return field

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and db_field.name == "groups":
            # A new group is no new role.
            field.widget.can_add_related = False
        return field

    @method_decorator(sensitive_post_parameters())
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        # Not in one transaction, as Django has it: hashing a password takes as long as the recorder may be kept waiting.
        return cast(Any, self)._add_view(request, form_url, extra_context)


class GroupAdmin(ByAdmins, DjangoGroupAdmin):
    """The three groups that are roles keep their names; any other group is only a list of people."""

    list_display = ("name", "is_role")
    fields = ("name", "members")
    readonly_fields = ("members",)
    filter_horizontal = ()

    @admin.display(description="role", boolean=True)
    def is_role(self, row: Group) -> bool:
        return row.name in ROLE_GROUPS

    @admin.display(description="members")
    def members(self, row: Group) -> str:
        if row.pk is None:
            return "-"
        names = row.user_set.order_by("username").values_list("username", flat=True)
        return listing(names[: OTHERS_NAMED + 1], limit=OTHERS_NAMED, total=names.count()) or "nobody"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("name", "members") if obj is not None and obj.name in ROLE_GROUPS else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.name not in ROLE_GROUPS)

    def get_actions(self, request: HttpRequest) -> Any:
        # "Delete selected" would not ask about each of them.
        return {}


class MachineTokenAdmin(Record):
    """Without the digest, which is the primary key: rows are named by the beginning of the token, as everywhere else."""

    least = Role.ADMIN
    hidden = ("digest",)
    address = "token_key"
    list_display = (
        "name",
        "token_key",
        "verbs",
        "instance",
        "user",
        when("created"),
        when("expiry", "expires"),
        when("last_used_at", "used"),
        when("revoked_at", "revoked"),
        "revoked_by",
    )
    list_select_related = ("user",)
    search_fields = ("name", "token_key", "instance")
    search_help_text = "Search by name, beginning of the token, or instance."
    ordering = ("-created",)

    def title(self, row: Any) -> str:
        return f"token {row.name} ({row.token_key}…)"


class SignInLinkAdmin(Record):
    least = Role.ADMIN
    hidden = ("digest",)
    list_display = ("id", "user", when("created_at", "made"), when("expires_at", "expires"), when("used_at", "used"))
    list_select_related = ("user",)
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return str(row)


class IdempotentRequestAdmin(Record):
    """That there was such a request, never its answer: that may hold what is shown once."""

    least = Role.ADMIN
    hidden = ("digest", "headers", "body")
    list_display = ("key", "actor", "status", when("at"))
    search_fields = ("actor", "key")
    ordering = ("-id",)

    def title(self, row: Any) -> str:
        return f"request {row.key} of {row.actor}"


def _in_words(message: Any) -> str:
    if isinstance(message, str):
        return message
    changed = [field for part in message if "changed" in part for field in part["changed"].get("fields", ())]
    return f"changed {listing(changed, limit=10)}" if changed else ""
