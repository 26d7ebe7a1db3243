"""Buttons of actions: on for whoever may and when it can be done, off with the reason otherwise."""

import re
import time

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from controlplane.access.roles import Role, Who
from controlplane.commands import drains, intent
from controlplane.domain.topology import Topology
from controlplane.queries import drains as drain_queries
from controlplane.queries import fleet
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import text_of

OLGA, VERA = Who("olga", Role.OPERATOR), Who("vera", Role.VIEWER)


def shown(said: str, who: Who = OLGA, **context) -> str:
    request = RequestFactory(SERVER_NAME="localhost").get("/")
    return Template("{% load acts %}" + said).render(Context({"who": who, "request": request, **context}))


@pytest.fixture
def row(on_backend):
    World("prefill-a").launch(Topology(2, 1, 2, 1), first_port=9000)
    return lambda: fleet.instance("prefill-a", now=time.time())[0]


def test_a_button_leads_to_its_dialog(row):
    html = shown('{% act "drain" row %}', row=row())
    assert html.startswith('<a class="btn" href="/act/drain?on=prefill-a" data-act aria-haspopup="dialog">Drain…')
    assert text_of(html) == "Drain… prefill-a"
    assert "on=prefill-a%3Adp1" in shown('{% act "drain" row group=1 %}', row=row())
    rank = fleet.ranks(row().id, term=1)[3]
    assert "on=prefill-a%3A1%3Adp1.cp0.tp1.pp0" in shown('{% act "evict" row rank=rank %}', row=row(), rank=rank)
    assert 'class="btn btn-sm btn-bad"' in shown('{% act "retire" row look="btn-sm" %}', row=row())


def test_of_two_the_one_that_can_be_done_is_shown(row):
    assert "Cordon…" in shown('{% act "cordon/uncordon" row %}', row=row())
    intent.cordon("prefill-a", actor="bob")
    assert "Uncordon…" in shown('{% act "cordon/uncordon" row %}', row=row())
    # A DP group has a wish of its own.
    assert ">Cordon…" in shown('{% act "cordon/uncordon" row group=1 %}', row=row())
    drains.drain("prefill-a", group=1, actor="bob")
    assert "Cancel drain…" in shown('{% act "drain/cancel-drain" row group=1 %}', row=row())


def test_what_is_off_says_why_beside_it_and_in_its_name(row):
    html = shown('{% act "supersede" row %}', row=row())
    assert "<button" in html and 'aria-disabled="true"' in html and "href" not in html.split("</button>")[0][:30]
    assert text_of(html) == "Supersede… prefill-a, off: there is no candidate launch off: there is no candidate launch"
    assert "why-no" not in shown('{% act "supersede" row quiet=True %}', row=row())


def test_several_say_each_reason_once(row):
    said = text_of(shown('{% acts "drain supersede uncordon retire" row %}', row=row()))
    assert "Supersede is off: there is no candidate launch." in said and "Uncordon is off: it is enabled." in said
    viewer = text_of(shown('{% acts "drain supersede retire" row %}', VERA, row=row()))
    assert viewer.endswith("Drain, Supersede, Retire are off: this needs the role operator.")
    assert "<a" not in shown('{% acts "drain supersede retire" row %}', VERA, row=row())


def test_a_drain_is_cancelled_or_forced_until_it_has_ended(row):
    drains.drain("prefill-a", group=1, actor="bob")
    drain = drain_queries.listing()[0]
    assert "/act/cancel-drain?on=prefill-a%3Adp1" in shown('{% drain_act "cancel" drain %}', drain=drain)
    assert "btn-bad" in shown('{% drain_act "force" drain %}', drain=drain)
    drains.cancel("prefill-a", group=1, actor="bob")
    ended = drain_queries.listing()[0]
    for name in ("cancel", "force"):
        assert "off: it has ended" in shown(f'{{% drain_act "{name}" drain %}}', drain=ended)


def test_the_same_from_a_shell_is_there_to_be_copied(on_backend):
    html = shown('{% show_as "/api/v1/instances?role=prefill" cli="instances list --json" %}')
    assert "curl -sS -H" in html and "&#x27;http://localhost/api/v1/instances?role=prefill&#x27;" in html
    assert "python manage.py instances list --json" in html
    target = re.search(r'popovertarget="([^"]+)"', html)
    assert target and f'id="{target[1]}"' in html


def test_only_administrators_are_offered_tokens(on_backend):
    assert "this needs the role admin" in shown('{% add_act "token" %}')
    assert 'href="/act/make-token"' in shown('{% add_act "token" %}', Who("anna", Role.ADMIN))
    assert 'href="/act/add"' in shown('{% add_act "instance" %}')
