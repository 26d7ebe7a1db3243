"""The permission table, whole: every role and every token verb, against every verb."""

import pytest
from django.contrib.auth.models import AnonymousUser

from controlplane.access.roles import LEAST_ROLE, NOBODY, TOKEN_VERBS, Role, Who, role_of

PEOPLE = {
    Role.NOBODY: set(),
    Role.VIEWER: {"read", "resolve", "engine-info"},
    Role.OPERATOR: {"read", "resolve", "engine-info", "operate"},
    Role.ADMIN: {"read", "resolve", "engine-info", "operate", "administer", "register", "report", "gateway"},
}


@pytest.mark.parametrize("role", PEOPLE)
@pytest.mark.parametrize("verb", LEAST_ROLE)
def test_a_person_may_what_their_role_may_on_every_instance(role, verb):
    who = Who("ann", role)
    for instance in (None, "a"):
        assert who.may(verb, instance) is (verb in PEOPLE[role])
    assert who.known is (role is not Role.NOBODY)


@pytest.mark.parametrize("given", TOKEN_VERBS)
@pytest.mark.parametrize("verb", LEAST_ROLE)
def test_a_token_may_what_it_was_made_for_and_only_there(given, verb):
    everywhere, there = (Who("token:t", verbs=frozenset({given}), instance=i, via="token") for i in ("", "a"))
    right = verb == given
    assert (everywhere.may(verb), everywhere.may(verb, "b")) == (right, right)
    assert (there.may(verb, "a"), there.may(verb, "b"), there.may(verb)) == (right, False, False)


def test_tokens_never_administer_and_nobody_may_nothing():
    assert "administer" not in TOKEN_VERBS
    assert not NOBODY.known and not any(NOBODY.may(verb) for verb in LEAST_ROLE)


@pytest.mark.usefixtures("database")
def test_a_role_is_the_highest_of_ones_groups_while_one_is_active(person):
    assert role_of(AnonymousUser()) is role_of(None) is Role.NOBODY
    assert role_of(person("n")) is Role.NOBODY
    assert role_of(person("v", "viewer")) is Role.VIEWER
    assert role_of(person("o", "operator", "viewer")) is Role.OPERATOR
    assert role_of(person("a", "admin")) is Role.ADMIN
    assert role_of(person("s", is_superuser=True)) is Role.ADMIN
    assert role_of(person("gone", "admin", is_superuser=True, is_active=False)) is Role.NOBODY
