"""Fixtures of this directory: a web process on a database of either kind, and who may look at it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client

from controlplane.access import tokens
from tests.controlplane.commands.on_backend import on_backend
from tests.controlplane.live.scene import Fleet, off_the_loop
from tests.support.plugin import Backend
from tests.support.redis import Redis
from tests.support.web import Web

__all__ = ["on_backend"]


@pytest.fixture
def make_web(on_backend: Backend, tmp_path: Path) -> Iterator[Callable[..., Web]]:
    """`make_web(PDCP_X=…)` -> a started web process on this test's database; it ends with the test."""
    made: list[Web] = []

    def make(**knobs: object) -> Web:
        log = tmp_path / f"web-{len(made) + 1}.log"
        # Sessions made here are to be valid there.
        made.append(Web(on_backend.env, log=log, **{"SECRET_KEY": settings.SECRET_KEY, **knobs}))
        return made[-1].start()

    yield make
    for web in made:
        web.kill9()
        print(f"--- {web.log_path.name} ---\n{web.log()[-20000:]}")


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("r")).start()
    yield server
    server.kill9()


@pytest.fixture
def person(on_backend: Backend) -> Callable[..., User]:
    """`person("vera", "viewer")` -> an account in that group."""

    @off_the_loop
    def make(name: str, *groups: str) -> User:
        user = User.objects.create_user(name)
        user.groups.set(Group.objects.filter(name__in=groups))
        return user

    return make


@pytest.fixture
def signed_in() -> Callable[[User, Web], dict[str, str]]:
    """Headers of a page that this person has open."""

    @off_the_loop
    def headers(user: User, web: Web) -> dict[str, str]:
        client = Client()
        client.force_login(user)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}", "Origin": web.url}

    return headers


@pytest.fixture
def token(on_backend: Backend) -> Callable[..., dict[str, str]]:
    """`token("read", instance="a")` -> headers of a machine that has such a token."""
    made = 0

    @off_the_loop
    def headers(*verbs: str, instance: str = "", name: str = "") -> dict[str, str]:
        nonlocal made
        made += 1
        maker, _ = User.objects.get_or_create(username="maker", defaults={"is_superuser": True})
        _, text = tokens.make(name or f"token-{made}", verbs or ["read"], instance, None, maker)
        return {"Authorization": f"Bearer {text}"}

    return headers


@pytest.fixture
def fleet(on_backend: Backend) -> Fleet:
    """Four instances and two gateways."""
    return Fleet([f"prefill-{letter}" for letter in "abcd"]).open()
