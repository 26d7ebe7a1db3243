"""Who asks, over HTTP and over a socket; and whether they may still what they could when they came."""

import asyncio
import time

import pytest
from channels.layers import get_channel_layer
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory, override_settings

from controlplane.access import identity, signals, tokens
from controlplane.access.revocation import groups_of
from controlplane.access.roles import Role

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def site(on_backend):
    signals.connect()
    with override_settings(
        ROOT_URLCONF="tests.controlplane.access.urls",
        ALLOWED_HOSTS=["testserver"],
        AUTHENTICATION_BACKENDS=["controlplane.access.backends.LimitedPasswords"],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        yield


def token(user, *verbs, instance="") -> str:
    return tokens.make("w", verbs, instance, None, user)[1]


def signed_in(name: str):
    """A person's browser, and who they are on its next request."""
    browser = Client()
    page = browser.post("/sign-in/", {"username": name, "password": PASSWORD})
    assert page.status_code == 302
    return browser, identity.who_of_request(browser.get("/").wsgi_request)


def test_a_session_a_token_and_nobody(ann, person):
    person("otto", "operator")
    _, otto = signed_in("otto")
    assert (otto.name, otto.role, otto.via, otto.source) == ("otto", Role.OPERATOR, "session", "127.0.0.1")
    assert otto.key and otto.key not in repr(otto)
    text = token(ann, "read")
    for headers in ({"authorization": f"Token {text}"}, {"x-pd-token": text}):
        who = identity.who_of_request(RequestFactory().get("/", headers=headers, REMOTE_ADDR="10.0.0.9"))
        assert (who.name, who.role, who.via, who.source) == ("token:w", Role.NOBODY, "token", "10.0.0.9")
    for nobody in (RequestFactory().get("/"), RequestFactory().get("/", {"token": text, "authorization": text})):
        who = identity.who_of_request(nobody)
        assert (who.known, who.source) == (False, "127.0.0.1")


def test_a_token_that_does_not_work_is_nobody_even_in_the_browser_of_somebody(person):
    person("otto", "admin")
    browser, _ = signed_in("otto")
    for header in ("Bearer pdcp_" + "0" * 64, "Bearer \xff", "Bearer " + "x" * 1_000_000, "Token a,Token b"):
        who = identity.who_of_request(browser.get("/", headers={"authorization": header}).wsgi_request)
        assert (who.known, who.via) == (False, "token")
    basic = browser.get("/", headers={"authorization": "Basic bmFtZTp4"}).wsgi_request
    assert identity.who_of_request(basic).name == "otto"


def test_a_drf_request_is_asked_without_asking_its_authenticators(ann):
    from rest_framework.authentication import BaseAuthentication
    from rest_framework.request import Request

    class Ours(BaseAuthentication):
        def authenticate(self, request):
            who = identity.who_of_request(request)
            return (who, who) if who.known else None

    raw = RequestFactory().get("/", headers={"authorization": f"Bearer {token(ann, 'read')}"})
    assert Request(raw, authenticators=[Ours()]).user.name == "token:w"


def test_a_socket_is_asked_the_same(ann, person):
    person("vera", "viewer")
    browser, vera = signed_in("vera")
    request = browser.get("/").wsgi_request
    scope = {"client": ("10.0.0.9", 5), "headers": [], "user": request.user, "session": request.session}
    seen = identity.who_of_scope(scope)
    assert (seen.name, seen.role, seen.source, seen.key) == ("vera", Role.VIEWER, "10.0.0.9", vera.key)
    text = token(ann, "read")
    by_token = identity.who_of_scope({**scope, "headers": [(b"x-pd-token", text.encode())]})
    assert (by_token.name, by_token.via) == ("token:w", "token")
    assert not identity.who_of_scope({**scope, "headers": [(b"authorization", b"Bearer \xff\x00")]}).known
    assert not identity.who_of_scope({"type": "websocket", "query_string": f"token={text}".encode()}).known


def ends(person, name: str, end) -> None:
    account = person(name, "operator")
    browser, who = signed_in(name)
    assert identity.still(who)
    end(account, browser)
    assert not identity.still(who), name


def test_a_person_may_no_more_when_anything_about_their_session_or_role_ended(person):
    ends(person, "signs-out", lambda account, browser: browser.post("/sign-out/"))
    ends(person, "loses-role", lambda account, _: account.groups.set(Group.objects.filter(name="viewer")))
    ends(person, "deactivated", lambda account, _: User.objects.filter(pk=account.pk).update(is_active=False))
    ends(person, "deleted", lambda account, _: account.delete())
    ends(person, "renamed", lambda account, _: User.objects.filter(pk=account.pk).update(username="other"))

    def other_password(account, _):
        account.set_password("another one entirely")
        account.save()

    ends(person, "changes-password", other_password)
    # More than before is not less.
    account = person("promoted", "viewer")
    _, who = signed_in("promoted")
    account.groups.add(Group.objects.get(name="admin"))
    assert identity.still(who)


def test_a_token_may_no_more_when_it_ended(ann):
    text = token(ann, "read")
    who = tokens.who_has(text, source="", now=time.time())
    assert identity.still(who)
    tokens.revoke(text[:15], "ann")
    assert not identity.still(who)
    assert not identity.still(identity.who_of_request(RequestFactory().get("/")))


def test_sockets_are_told_when_their_access_may_have_changed(ann, person):
    """In one process, through the layer that tests have; `heard` reads what came for each of somebody's groups."""
    account = person("otto", "operator")
    browser, otto = signed_in("otto")
    text = token(account, "read")
    machine = tokens.who_has(text, source="", now=time.time())

    def heard(who, act) -> int:
        layer = get_channel_layer()

        async def joined():
            channel = await layer.new_channel()
            for group in groups_of(who):
                await layer.group_add(group, channel)
            await asyncio.to_thread(act)
            number = 0
            try:
                while True:
                    message = await asyncio.wait_for(layer.receive(channel), 0.3)
                    assert message == {"type": "access.changed"}
                    number += 1
            except TimeoutError:
                return number

        return asyncio.run(joined())

    assert heard(otto, lambda: account.groups.clear()) >= 1
    assert heard(otto, lambda: Group.objects.get(name="viewer").user_set.add(account)) >= 1
    assert heard(otto, lambda: User.objects.get(pk=account.pk).save(update_fields=["last_login"])) == 0
    assert heard(otto, lambda: ann.save()) == 0
    assert heard(machine, lambda: tokens.revoke(text[:15], "ann")) == 1
    assert heard(otto, lambda: browser.post("/sign-out/")) >= 1
    other = token(account, "read")
    machine = tokens.who_has(other, source="", now=time.time())
    assert heard(machine, lambda: account.delete()) == 1
    for group in (*groups_of(otto), *groups_of(machine)):
        assert layer_takes(group) and otto.key not in group


def layer_takes(group: str) -> bool:
    return bool(get_channel_layer().require_valid_group_name(group)) and len(group) < 100
