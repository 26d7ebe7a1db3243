"""Signing in with a password: who gets in, how often it may be tried, and what is kept of it."""

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone

from controlplane.access import links, signals, throttle
from controlplane.access.backends import LimitedPasswords
from controlplane.access.throttle import PER_ACCOUNT, PER_ADDRESS
from controlplane.models.access import Attempt

PASSWORD = "correct horse battery"
LIMITED = ["controlplane.access.backends.LimitedPasswords"]


@pytest.fixture(autouse=True)
def site(database):
    cache.clear()
    throttle._own.clear()
    signals.connect()
    with override_settings(
        ROOT_URLCONF="tests.controlplane.access.urls",
        AUTHENTICATION_BACKENDS=LIMITED,
        LOGIN_URL="login",
        ALLOWED_HOSTS=["testserver"],
        # Quick, so that dozens of tries are.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        yield


@pytest.fixture
def otto() -> User:
    return User.objects.create_user("otto", password=PASSWORD)


def attempt(client: Client, name: str = "otto", password: str = PASSWORD, *, path: str = "/sign-in/", **more):
    return client.post(path, {"username": name, "password": password, **more}, REMOTE_ADDR="10.0.0.9")


def kept() -> list[tuple[str, str, bool, int, str]]:
    return list(Attempt.objects.order_by("id").values_list("action", "target", "allowed", "status", "source"))


def test_a_name_and_its_password_sign_in_and_the_way_back_is_one_of_ours(otto):
    client = Client()
    assert client.get("/sign-in/").status_code == 200
    done = attempt(client, next="/admin/")
    assert (done.status_code, done["Location"]) == (302, "/admin/")
    assert client.get("/").content == b"otto"
    assert attempt(Client(), next="https://evil.example/")["Location"] == "/"
    assert client.post("/sign-out/").status_code == 302
    assert client.get("/").content == b"nobody"
    assert kept() == [("sign-in", "otto", True, 302, "10.0.0.9")] * 2 + [("sign-out", "otto", True, 302, "127.0.0.1")]


def test_a_wrong_password_an_inactive_account_and_an_unknown_name_look_alike(otto):
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    client = Client()
    pages = [attempt(client, *who) for who in (("otto", "wrong"), ("gone", PASSWORD), ("hunter2-typed-here", "x"))]
    assert {page.status_code for page in pages} == {200}
    assert all("do not belong together" in page.content.decode() for page in pages)
    assert [target for _, target, *_ in kept()] == ["otto", "gone", "(unknown account)"]
    assert "hunter2-typed-here" not in str(list(Attempt.objects.values()))


def test_a_form_without_its_csrf_token_is_refused(otto):
    assert attempt(Client(enforce_csrf_checks=True)).status_code == 403


@pytest.mark.parametrize("path", ["/sign-in/", "/admin/login/"])
def test_an_account_can_be_tried_a_few_times_from_wherever_whichever_form_asks(otto, path):
    otto.is_staff = otto.is_superuser = True
    otto.save()
    for number in range(PER_ACCOUNT.tries):
        page = Client().post(
            path, {"username": "Otto" if number % 2 else "otto", "password": "x"}, REMOTE_ADDR=f"10.0.0.{number}"
        )
        assert page.status_code == 200
    held = Client().post(path, {"username": "otto", "password": PASSWORD}, REMOTE_ADDR="10.0.1.1")
    assert "_auth_user_id" not in held.wsgi_request.session
    if path == "/sign-in/":
        assert (held.status_code, held["Retry-After"]) == (429, str(PER_ACCOUNT.seconds))
        assert "too many tries" in held.content.decode()
    assert Attempt.objects.latest("id").outcome == "too many tries"
    # Whoever can read the terminal still gets in, and so does everybody else.
    User.objects.create_user("anna", password=PASSWORD)
    assert attempt(Client(), "anna").status_code == 302
    link = links.issue(now=timezone.now())
    assert Client().post(f"/sign-in/{link}/").status_code == 302


def test_a_link_that_does_not_work_is_kept_as_a_try_without_the_link():
    link = "L" * 43
    assert Client().post(f"/sign-in/{link}/", REMOTE_ADDR="10.0.0.77").status_code == 403
    assert kept() == [("sign-in", "(link)", False, 403, "10.0.0.77")]
    assert link not in str(list(Attempt.objects.values()))


def test_signing_in_gives_an_account_its_tries_back_and_an_address_not():
    for number in range(3):
        User.objects.create_user(f"u{number}", password=PASSWORD)
    for _ in range(2):
        for _ in range(PER_ACCOUNT.tries - 1):
            assert throttle.admit("u0", "10.0.0.1") == 0
        throttle.forgive("u0")
    for number in range(PER_ADDRESS.tries - 2 * (PER_ACCOUNT.tries - 1)):
        assert throttle.admit(f"name-{number}", "10.0.0.1") == 0
    assert throttle.admit("somebody", "10.0.0.1") == PER_ADDRESS.seconds
    assert throttle.admit("somebody", "10.0.0.2") == 0


def test_one_host_is_one_address_however_many_it_has():
    for number in range(PER_ADDRESS.tries):
        assert throttle.admit(f"name-{number}", f"2001:db8::{number:x}") == 0
    assert throttle.admit("somebody", "2001:db8::ffff:1") > 0
    assert throttle.admit("somebody", "2001:db8:0:1::1") == 0


def test_while_redis_is_away_tries_are_still_counted_and_people_still_sign_in(otto):
    nowhere = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1"}}
    with override_settings(CACHES=nowhere):
        assert attempt(Client()).status_code == 302
        for _ in range(PER_ACCOUNT.tries):
            assert attempt(Client(), password="x").status_code == 200
        assert attempt(Client()).status_code == 429


@pytest.mark.parametrize("name", ["", "\x00", "o\x00tto", "%FF%FE", "x" * 200_000, "' OR 1=1 --", "ööö\u202e"])
def test_whatever_is_typed_for_a_name_is_refused_and_never_a_failure(name):
    typed = f"username={name}&password=%00%FF"
    page = Client().post("/sign-in/", typed, content_type="application/x-www-form-urlencoded")
    assert page.status_code == 200


async def test_asking_without_waiting_is_counted_too():
    tried = RequestFactory().post("/", REMOTE_ADDR="10.0.0.9")
    for _ in range(PER_ACCOUNT.tries):
        assert await LimitedPasswords().aauthenticate(tried, username="nobody", password="x") is None
    with pytest.raises(PermissionDenied):
        await LimitedPasswords().aauthenticate(tried, username="nobody", password="x")
    assert tried.sign_in_wait == PER_ACCOUNT.seconds
