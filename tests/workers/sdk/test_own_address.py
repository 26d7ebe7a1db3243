"""Which address of this host the others are told."""

import logging
import socket

import pytest

from tests.cases.test_network import own_address as some_address
from workers.sdk import interfaces
from workers.sdk.errors import NotAdvertisable
from workers.sdk.identity import VARIABLE, launch_token, worker_name
from workers.sdk.own_address import own_address
from workers.sdk.places import read_place

AFAR, HERE = read_place("192.0.2.1"), read_place("127.0.0.1")


def test_an_explicit_address_wins_over_the_environment_and_the_interface():
    mine = some_address()
    chosen = own_address(HERE, explicit=mine, environ={"HOST_IP": "127.0.0.1", "SGLANG_LOCAL_IP_NIC": "lo"})
    assert (chosen.host, chosen.why) == (mine, "it was given")
    chosen = own_address(HERE, environ={"SGLANG_HOST_IP": mine, "HOST_IP": "127.0.0.1"})
    assert (chosen.host, chosen.why) == (mine, "SGLANG_HOST_IP says so")


def test_an_address_that_this_host_does_not_have_is_refused_unless_it_is_behind_nat():
    with pytest.raises(NotAdvertisable, match="no address of this host"):
        own_address(AFAR, explicit="203.0.113.9", environ={})
    assert own_address(AFAR, explicit="203.0.113.9", environ={}, behind_nat=True).host == "203.0.113.9"


@pytest.mark.parametrize("given", ["127.0.0.1", "localhost", "::1"])
def test_loopback_is_told_to_a_control_plane_on_this_host_and_to_no_other(given):
    if ":" in given and not interfaces.is_local("::1"):
        pytest.skip("no IPv6 here")
    assert own_address(HERE, explicit=given, environ={}).host
    with pytest.raises(NotAdvertisable, match="is loopback, and the control plane at 192"):
        own_address(AFAR, explicit=given, environ={})


def test_an_interface_wins_over_the_route_and_one_without_an_address_is_refused_with_those_there_are():
    assert own_address(HERE, interface="lo", environ={}).host == "127.0.0.1"
    with pytest.raises(NotAdvertisable, match=r"no-such-nic has no address .* there are .*lo"):
        own_address(HERE, interface="no-such-nic", environ={})


def test_the_route_to_the_control_plane_says_it_when_nothing_else_does():
    mine = some_address()
    chosen = own_address(AFAR, environ={})
    assert chosen.host == mine and "the way to the control plane" in chosen.why
    assert own_address(HERE, environ={}).host == "127.0.0.1"


@pytest.mark.parametrize("given", ["0.0.0.0", "not an address", "169.254.169.254", "no-such-host.invalid"])
def test_what_nobody_can_connect_to_is_not_told(given):
    with pytest.raises(NotAdvertisable):
        own_address(HERE, explicit=given, environ={})


def test_the_choice_is_logged_once_with_its_reason(caplog):
    caplog.set_level(logging.INFO, logger="workers.sdk.own_address")
    for _ in range(3):
        own_address(read_place("127.0.0.3"), explicit="127.0.0.2", environ={})
    said = [record.getMessage() for record in caplog.records]
    assert said == ["this host is advertised as 127.0.0.2: it was given"]


def test_no_name_is_looked_up_for_an_address(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was looked up"))
    own_address(HERE, explicit="127.0.0.1", environ={})
    own_address(HERE, environ={})


def test_a_launch_has_one_token_which_its_children_inherit():
    env: dict[str, str] = {}
    token = launch_token(env)
    assert env == {VARIABLE: token} and launch_token(env) == token and len(token) == 32
    assert launch_token({}) != token
    assert launch_token({VARIABLE: "given by the launcher"}) == "given by the launcher"
    assert worker_name(env) == worker_name(dict(env))
