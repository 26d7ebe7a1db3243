"""Every table has its pages, they are for looking only, they show no secret, and no page runs anything inline."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group, User
from django.urls import reverse

from controlplane.admin.people import ROLE_GROUPS
from controlplane.admin.picking import Offering
from controlplane.admin.records import Record
from controlplane.admin.registry import site
from controlplane.admin.site import OTHER
from controlplane.models import Attempt, Event, MachineToken, Rank, RoomBinding, SignInLink

from .conftest import ROLES, client_of
from .page import Page, counted_queries
from .rows import MARK, SECRETS, ours, row_of

FOR_ADMINS = {"Attempt", "IdempotentRequest", "LogEntry", "MachineToken", "SignInLink", "User", "Group"}
MAX_QUERIES = {"list": 9, "detail": 6}


def list_of(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def page_of(row):
    page = site.get_model_admin(type(row))
    name = getattr(row, getattr(page, "address", None) or "pk")
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(name)])


def may_look(role, model):
    return role == "admin" or model.__name__ not in FOR_ADMINS


@pytest.fixture
def stored(people):
    """A row of every registered table, by table."""
    kept = {model: row_of(model) for model in site._registry if model not in (User, Group, LogEntry)}
    operator = User.objects.get(username="operator-ann")
    kept[User], kept[Group] = operator, Group.objects.get(name="viewer")
    kept[LogEntry] = LogEntry.objects.create(user=operator, object_repr="x", action_flag=2, change_message="[]")
    return kept


def test_every_table_is_in_the_admin_and_has_its_place_in_the_index(people):
    registered = set(site._registry)
    assert set(ours()) - registered == {Rank}
    index = site.get_app_list(people["admin"].get("/admin/").wsgi_request)
    assert OTHER not in [section["name"] for section in index]
    assert {model["object_name"] for section in index for model in section["models"]} == {
        model.__name__ for model in registered | {Rank}
    }


def test_whoever_has_a_role_opens_every_list_and_every_page_that_is_for_them(people, stored):
    for role in ROLES:
        for model, row in stored.items():
            wanted = 200 if may_look(role, model) else 403
            assert people[role].get(list_of(model)).status_code == wanted, (role, model)
            assert people[role].get(page_of(row)).status_code == wanted, (role, model)
        assert people[role].get(reverse("admin:controlplane_rank_changelist")).status_code == 200
        assert people[role].get("/admin/controlplane/").status_code == 200


def test_who_has_no_role_is_sent_to_the_sign_in(people, stored):
    for who in ("stranger", "nobody"):
        for address in [*map(list_of, stored), *map(page_of, stored.values()), "/admin/", "/admin/act/drain/?on=a"]:
            answer = people[who].get(address)
            assert answer.status_code == 302 and "next=" in answer["Location"], (who, address)


def test_a_deactivated_admin_is_nobody(people):
    User.objects.filter(username="admin-ann").update(is_active=False)
    assert people["admin"].get("/admin/").status_code == 302


def test_records_can_neither_be_added_nor_changed_nor_deleted_by_anybody(people, stored):
    for model, row in stored.items():
        if not isinstance(site.get_model_admin(model), Record):
            continue
        before = type(row)._default_manager.using(row._state.db).values().get(pk=row.pk)
        own = page_of(row)
        for address in (own, own.replace("/change/", "/delete/"), f"{list_of(model)}add/"):
            assert people["admin"].post(address, {"post": "yes"}).status_code == 403, address
        answer = people["admin"].post(list_of(model), {"action": "delete_selected", "_selected_action": str(row.pk)})
        assert answer.status_code == (302 if isinstance(site.get_model_admin(model), Offering) else 403), model
        assert type(row)._default_manager.using(row._state.db).values().get(pk=row.pk) == before
    assert people["admin"].post(reverse("admin:controlplane_rank_changelist"), {"action": "x"}).status_code == 302


def test_no_page_shows_a_secret_or_runs_anything_inline(people, stored):
    for model, row in stored.items():
        for address in (list_of(model), page_of(row)):
            answer = people["admin"].get(address)
            page = Page(answer)
            assert page.inline == [], address
            assert f"{MARK}-" not in page.html, address
            assert "default-src 'self'" in answer["Content-Security-Policy"]
            assert "unsafe" not in answer["Content-Security-Policy"]
    others = (
        "",
        "login/",
        "controlplane/",
        "controlplane/rank/",
        "password_change/",
        "auth/user/add/",
        "auth/group/add/",
    )
    for address in (f"/admin/{path}" for path in others):
        assert Page(people["admin"].get(address)).inline == []


def test_a_secret_cannot_be_guessed_by_filtering(people, stored):
    for model in stored:
        for column in SECRETS.get(model.__name__, ()):
            names = [column, "pk"] if column == model._meta.pk.name else [column]
            for name in names:
                assert people["admin"].get(f"{list_of(model)}?{name}__startswith=s").status_code == 400, name


def test_a_list_in_a_popup_does_not_name_rows_by_a_hidden_key(people, stored):
    for model, row in stored.items():
        if model._meta.pk.name in SECRETS.get(model.__name__, ()):
            for query in ("_popup=1", f"_popup=1&_to_field={model._meta.pk.name}"):
                assert str(row.pk) not in people["admin"].get(f"{list_of(model)}?{query}").content.decode(), model


def test_engine_bodies_are_never_loaded(people, stored):
    body = next(row for model, row in stored.items() if model.__name__ == "EngineBody")
    with counted_queries() as ran:
        people["viewer"].get(list_of(type(body)))
        people["viewer"].get(page_of(body))
    assert not [sql for sql in ran if '"compressed"' in sql]


def test_the_number_of_queries_does_not_grow_with_the_rows(people, stored):
    for model, row in stored.items():
        with counted_queries() as few:
            people["admin"].get(list_of(model))
        for _ in range(5 if model not in (User, Group, LogEntry) else 0):
            row_of(model)
        with counted_queries() as more:
            people["admin"].get(list_of(model))
        assert len(more) == len(few) <= MAX_QUERIES["list"], (model, more)
        with counted_queries() as detail:
            people["admin"].get(page_of(row))
        assert len(detail) <= MAX_QUERIES["detail"] + (4 if model in (User, Group) else 0), (model, detail)


def test_a_journal_lists_its_newest_rows_and_says_so(people, monkeypatch):
    monkeypatch.setattr(site.get_model_admin(RoomBinding), "window", 3)
    for room in range(10, 15):
        row_of(RoomBinding, room=room)
    page = Page(people["viewer"].get(list_of(RoomBinding)))
    assert "The newest 3 are listed and searched." in page.text
    assert "3 room bindings" in page.text
    assert "0 room bindings" in Page(people["viewer"].get(f"{list_of(RoomBinding)}?q=10")).text
    assert "1 room binding" in Page(people["viewer"].get(f"{list_of(RoomBinding)}?q=14")).text


def test_a_long_table_is_counted_to_a_limit(people, monkeypatch):
    monkeypatch.setattr("controlplane.admin.windows.COUNTED", 4)
    for _ in range(7):
        row_of(SignInLink)
    page = Page(people["admin"].get(list_of(SignInLink)))
    assert "There are more than 4" in page.text


def test_events_are_told_as_sentences(people):
    row_of(Event, revision=7, kind="launch.completed", data='{"launch": 3}', reason="", actor="")
    assert "launch 3 is complete" in Page(people["viewer"].get(list_of(Event))).text
    row_of(Event, revision=8, kind="of.tomorrow", data='{"x": "<b>"}')
    assert "of.tomorrow" in Page(people["viewer"].get(list_of(Event))).text


def test_times_are_said_to_people(people):
    row_of(Event, revision=7, at=1_700_000_000.0)
    assert "2023-11-14 22:13:20 UTC" in Page(people["viewer"].get(list_of(Event))).text


def test_instances_of_other_tables_are_named_and_can_be_searched_by_name(people, stored):
    by_name = {model.__name__: (model, row) for model, row in stored.items()}
    instance = by_name["Instance"][1]
    for name in ("Launch", "GroupIntent", "EngineInfo", "RoomBinding", "RoomCollision", "WorkerLease"):
        model = by_name[name][0]
        row_of(model, instance_id=instance.pk)
        found = Page(people["viewer"].get(f"{list_of(model)}?q={instance.name}"))
        assert instance.name in found.links, name
        assert Page(people["viewer"].get(f"{list_of(model)}?q=ghost")).links.get(instance.name) is None


def test_odd_requests_are_answered_not_with_an_error_of_ours(people, stored):
    for model in stored:
        for query in ("p=99999", "o=99.-7&q=" + "x" * 3000, "q=%00", "id=%00", "p=x&e=1&nothing=1"):
            assert people["admin"].get(f"{list_of(model)}?{query}").status_code < 500, (model, query)
        assert people["admin"].get(f"{list_of(model)}no-such-row/change/").status_code in (302, 404)


def test_a_number_that_no_column_holds_leads_back_to_the_whole_list(people, stored):
    for model, name in (
        (MachineToken, "user__exact"),
        (SignInLink, "user"),
        (LogEntry, "user__exact"),
        (User, "groups"),
    ):
        answer = people["admin"].get(list_of(model), {name: "9" * 20})
        assert answer.status_code in (200, 302), model
        assert answer.status_code == 200 or answer["Location"].endswith("?e=1")


def test_the_header_says_who_and_as_what(people):
    assert "operator-ann (operator)" in Page(people["operator"].get("/admin/")).text


def test_signing_in_takes_a_role_and_no_staff_flag(people):
    for name in ("viewer-ann", "nobody-ann"):
        user = User.objects.get(username=name)
        user.set_password("a long password")
        user.save()
    sign_in = client_of()
    for name, status in (("viewer-ann", 302), ("nobody-ann", 200)):
        answer = sign_in.post("/admin/login/", {"username": name, "password": "a long password"})
        assert answer.status_code == status
        sign_in.logout()
    assert "has no role yet" in answer.content.decode()
    refused = Attempt.objects.get(action="sign-in", allowed=False)
    assert (refused.actor, refused.outcome) == ("nobody-ann", "has no role")


def test_roles_are_groups(people):
    assert set(ROLE_GROUPS) == set(ROLES)
