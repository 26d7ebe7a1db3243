"""Log lines: one entry is one line whatever a worker sends, and a flood is cut and counted."""

import json
import subprocess
import sys

import pytest
from django.test import RequestFactory
from ipware import get_client_ip

from controlplane import logs
from controlplane.floodgate import FloodGate, Verdict
from tests.support.processes import ROOT

FORGERY = "ok\n2026-01-01T00:00:00Z [info     ] all is well\x1b[2J\u2028x\u202e"


def written_by(code: str, form: str) -> list[str]:
    setup = f"import logging, structlog; from controlplane import logs\nlogs.configure(level='INFO', form={form!r})\n"
    done = subprocess.run([sys.executable, "-c", setup + code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b""
    return done.stderr.decode("utf-8").split("\n")[:-1]


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    "call",
    [
        f"structlog.get_logger('x').info('refused', reason={FORGERY!r})",
        f"structlog.get_logger('x').info({FORGERY!r})",
        f"structlog.get_logger('x').info('refused', **{{{FORGERY!r}: [{FORGERY!r}, {{'a': {FORGERY!r}}}]}})",
        f"structlog.get_logger('x').info('refused', body={FORGERY.encode()!r})",
        f"logging.getLogger('x').info('refused %s', {FORGERY!r})",
    ],
)
def test_nothing_that_is_logged_begins_a_new_line_or_commands_the_terminal(form, call):
    lines = written_by(call, form)
    assert len(lines) == 1
    assert "\x1b" not in lines[0]
    assert "\u202e" not in lines[0]
    assert "\u2028" not in lines[0]
    if form == "json":
        assert json.loads(lines[0])["logger"] == "x"


def test_a_traceback_keeps_its_lines_and_each_is_marked():
    code = f"try: raise ValueError({FORGERY!r})\nexcept ValueError: structlog.get_logger('x').exception('failed')"
    first, *rest = written_by(code, "console")
    assert "failed" in first
    assert len(rest) > 2
    assert all(line.startswith("    | ") for line in rest)
    (line,) = written_by(code, "json")
    assert "Traceback" in json.loads(line)["exception"]


def test_a_long_value_is_cut_and_its_length_is_told():
    assert len(logs.escape("x" * 1_000_000)) < 2_100
    assert "(1000000 characters)" in logs.escape("x" * 1_000_000)


def test_a_source_that_floods_is_cut_while_another_is_heard():
    code = (
        "log = structlog.get_logger('x')\n"
        "for n in range(1000): log.warning('refused', source='10.0.0.1', n=n)\n"
        "log.warning('refused', source='10.0.0.2')\n"
        "log.warning('restarted', source='10.0.0.1')\n"
        "for n in range(50): log.warning('ours')\n"
    )
    entries = [json.loads(line) for line in written_by(code, "json")]
    told = [(entry["event"], entry.get("source")) for entry in entries]
    assert told.count(("refused", "10.0.0.1")) == 5
    assert told.count(("refused", "10.0.0.2")) == told.count(("restarted", "10.0.0.1")) == 1
    assert told.count(("ours", None)) == 50


def test_what_was_suppressed_is_counted_in_the_next_window():
    gate = FloodGate(per_source=2, window_seconds=10)
    verdicts = [gate.admit("a", "refused", now=0.0) for _ in range(7)]
    assert [verdict.admitted for verdict in verdicts] == [True, True] + [False] * 5
    assert gate.admit("a", "refused", now=9.9) == Verdict(admitted=False)
    assert gate.admit("a", "refused", now=10.1) == Verdict(admitted=True, suppressed=6)
    assert gate.admit("a", "refused", now=10.2) == Verdict(admitted=True, suppressed=0)


def test_many_sources_together_are_cut_too():
    gate = FloodGate(per_source=5, per_kind=100)
    admitted = sum(gate.admit(f"10.0.{n // 256}.{n % 256}", "refused", now=0.0).admitted for n in range(5000))
    assert admitted == 100


def test_the_gate_forgets_the_oldest_source_but_not_what_it_owes():
    gate = FloodGate(per_source=1, per_kind=10**9, remembered=10)
    for _ in range(4):
        gate.admit("first", "refused", now=0.0)
    verdicts = [gate.admit(f"later {n}", "refused", now=1.0) for n in range(20)]
    assert len(gate) == 10
    assert sum(verdict.suppressed for verdict in verdicts) == 3


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_opens_a_door_is_in_no_log_line_however_it_got_there(form):
    token, link = "pdcp_" + "0a" * 32, "W" * 43
    assert token not in logs.escape(f"{'x' * 1960} {token}"), "cut off in its middle, too"
    lines = written_by(
        f"log = structlog.get_logger('x')\n"
        f"log.warning('request_finished', request='GET /api/v1/fleet?token={token}', more={{'a': [{token!r}]}})\n"
        f"log.warning('request_finished', request='POST /sign-in/{link}/')\n"
        f"logging.getLogger('django.request').warning('%s: %s', 'Bad Request', '/sign-in/{link}/')\n"
        f"try: raise ValueError('/sign-in/{link}/ {token}')\nexcept ValueError: log.exception('failed')",
        form,
    )
    assert "pdcp_0a0a0a0a0a" in lines[0], "who it was can still be told"
    assert not [line for line in lines if token in line or link in line]
    assert all("/sign-in/" in line for line in lines[1:3])


def test_whoever_is_refused_page_after_page_does_not_fill_the_log():
    code = (
        "log = logging.getLogger('django.request')\n"
        "from types import SimpleNamespace as Asked\n"
        "one, other = (Asked(META={'REMOTE_ADDR': ip}) for ip in ('10.0.0.1', '10.0.0.2'))\n"
        "for n in range(1000): log.warning('%s: %s', 'Not Found', f'/{n}', extra={'request': one})\n"
        "log.warning('%s: %s', 'Not Found', '/other', extra={'request': other})\n"
    )
    lines = written_by(code, "json")
    assert len(lines) == 6 and "/other" in lines[-1]


def test_the_address_in_the_log_is_not_what_a_header_says():
    forged = {"HTTP_X_FORWARDED_FOR": "8.8.8.8", "HTTP_X_REAL_IP": "8.8.8.8", "HTTP_X_CLIENT_IP": "8.8.8.8"}
    assert get_client_ip(RequestFactory().get("/", REMOTE_ADDR="10.0.0.9", **forged))[0] == "10.0.0.9"
