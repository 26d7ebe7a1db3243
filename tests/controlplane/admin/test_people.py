"""Accounts and groups: admins alone, audited, and never without an administrator."""

import pytest
from django.contrib.auth.models import Group, User

from controlplane.models import Attempt

from .page import Page

USERS, GROUPS = "/admin/auth/user/", "/admin/auth/group/"


def change(client, user: User, **more):
    form = {"username": user.username, "is_active": "on", "first_name": "", "last_name": "", "email": ""}
    return client.post(
        f"{USERS}{user.pk}/change/", {name: value for name, value in {**form, **more}.items() if value is not None}
    )


@pytest.fixture
def viewer(people) -> User:
    return User.objects.get(username="viewer-ann")


def test_an_admin_makes_accounts_and_gives_roles_and_the_audit_has_it(people, viewer):
    admin = people["admin"]
    made = admin.post(
        f"{USERS}add/",
        {"username": "grace", "usable_password": "true", "password1": "a long one 12", "password2": "a long one 12"},
    )
    assert made.status_code == 302
    operator = Group.objects.get(name="operator")
    assert change(admin, viewer, groups=[operator.pk]).status_code == 302
    assert list(viewer.groups.all()) == [operator]
    kept = list(
        Attempt.objects.filter(action__startswith="user.")
        .order_by("id")
        .values_list("action", "target", "actor", "via", "allowed")
    )
    assert kept == [
        ("user.add", "grace", "admin-ann", "admin", True),
        ("user.change", "viewer-ann", "admin-ann", "admin", True),
    ]
    # The role holds from the next request on.
    assert people["viewer"].get("/admin/act/cordon/?on=a")["Location"].startswith("/admin/controlplane/instance/")


def test_nobody_but_an_admin_touches_accounts(people, viewer):
    for role in ("viewer", "operator"):
        assert change(people[role], viewer, is_superuser="on").status_code == 403
        assert people[role].post(f"{USERS}add/", {"username": "x"}).status_code == 403
        assert people[role].get(f"{USERS}{viewer.pk}/password/").status_code == 403
        assert people[role].post(f"{GROUPS}add/", {"name": "x"}).status_code == 403
    viewer.refresh_from_db()
    assert not viewer.is_superuser


def test_the_last_administrator_cannot_be_taken_away(people, viewer):
    ann = User.objects.get(username="admin-ann")
    kept = {"groups": [Group.objects.get(name="admin").pk]}
    for loss in ({"groups": []}, {"is_active": None, **kept}):
        page = Page(change(people["admin"], ann, **loss))
        assert page.status == 200 and "last active administrator" in page.text
    assert change(people["admin"], viewer, is_superuser="on").status_code == 302
    assert change(people["admin"], ann, groups=[]).status_code == 302


def test_accounts_are_deactivated_not_deleted_and_role_groups_stay_what_they_are(people, viewer):
    admin = people["admin"]
    assert admin.post(f"{USERS}{viewer.pk}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in admin.get(USERS).content.decode()
    group = Group.objects.get(name="operator")
    assert admin.post(f"{GROUPS}{group.pk}/delete/", {"post": "yes"}).status_code == 403
    admin.post(f"{GROUPS}{group.pk}/change/", {"name": "boss"})
    group.refresh_from_db()
    assert group.name == "operator"
    assert "operator-ann" in Page(admin.get(f"{GROUPS}{group.pk}/change/")).text
    assert admin.post(f"{GROUPS}add/", {"name": "night shift"}).status_code == 302
    other = Group.objects.get(name="night shift")
    assert admin.post(f"{GROUPS}{other.pk}/delete/", {"post": "yes"}).status_code == 302


def test_staff_flags_and_permissions_that_mean_nothing_are_not_shown(people, viewer):
    html = people["admin"].get(f"{USERS}{viewer.pk}/change/").content.decode()
    assert "is_staff" not in html and "user_permissions" not in html
    assert "superuser is an admin" in html
