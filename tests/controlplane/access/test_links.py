"""Sign-in links: once, for a while, for an administrator, and never readable from the database."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.access import links
from controlplane.models.access import SignInLink

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("database")


def test_a_link_works_once():
    token = links.issue(now=NOW)
    assert links.redeem(token, now=NOW).is_superuser
    with pytest.raises(links.LinkRefused, match="used before"):
        links.redeem(token, now=NOW)


def test_a_link_works_for_fifteen_minutes_and_not_a_second_longer():
    in_time, late = links.issue(now=NOW), links.issue(now=NOW)
    assert links.redeem(in_time, now=NOW + timedelta(minutes=14, seconds=59))
    with pytest.raises(links.LinkRefused):
        links.redeem(late, now=NOW + timedelta(minutes=15))


@pytest.mark.parametrize("token", ["", "x", "\0", "\ud800", "a" * 10_000])
def test_a_token_that_was_never_issued_is_refused(token):
    links.issue(now=NOW)
    with pytest.raises(links.LinkRefused):
        links.redeem(token, now=NOW)


def test_whoever_tries_tokens_that_do_not_exist_writes_nothing():
    with CaptureQueriesContext(connection) as ran, pytest.raises(links.LinkRefused):
        links.redeem("x" * 43, now=NOW)
    assert not [query for query in ran.captured_queries if query["sql"].startswith("UPDATE")]


def test_the_token_itself_is_not_stored():
    token = links.issue(now=NOW)
    assert token not in str(list(SignInLink.objects.values()))
    assert len(token) >= 43


def test_without_an_administrator_the_link_is_for_a_new_one_that_has_no_password():
    user = links.redeem(links.issue(now=NOW), now=NOW)
    assert (user.username, user.is_superuser, user.is_staff) == ("admin", True, True)
    assert not user.has_usable_password()


def test_with_an_administrator_the_link_is_for_that_one():
    kept = User.objects.create_superuser("grace", password="a long password")
    assert links.redeem(links.issue(now=NOW), now=NOW) == kept
    assert User.objects.count() == 1


def test_a_demoted_admin_account_does_not_get_its_rights_back():
    User.objects.create_user("admin")
    with pytest.raises(links.LinkRefused, match="createsuperuser"):
        links.issue(now=NOW)


def test_an_account_demoted_after_the_link_was_made_is_not_signed_in():
    token = links.issue(now=NOW)
    User.objects.update(is_active=False)
    with pytest.raises(links.LinkRefused, match="not an active administrator"):
        links.redeem(token, now=NOW)


def test_housekeeping_deletes_what_nobody_can_use_and_keeps_the_rest():
    used, _expired, fresh = links.issue(now=NOW), links.issue(now=NOW), None
    links.redeem(used, now=NOW)
    later = NOW + timedelta(minutes=16)
    fresh = links.issue(now=later)
    assert links.delete_spent(now=later) == 2
    assert links.redeem(fresh, now=later)
