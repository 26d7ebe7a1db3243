"""Every request to an address that somebody told us is counted once, by what came of it; answers are timed."""

from __future__ import annotations

import pytest
from django.test import override_settings

from controlplane.domain.errors import Refused
from controlplane.metrics.process import OUTGOING, OUTGOING_SECONDS
from controlplane.probes.networks import parse_networks
from controlplane.probes.outgoing import fetch
from tests.controlplane.metrics.scraping import Scrape
from tests.controlplane.probes.answering import answering, garbage, nothing, reply
from tests.support.ports import free_port


def told() -> Scrape:
    return Scrape.here([*OUTGOING.samples(), *OUTGOING_SECONDS.samples()])


def result(said: dict[str, float]) -> dict[str, float]:
    return {
        name.partition("=")[2].rstrip("}"): by for name, by in said.items() if name.startswith("pdcp_outgoing_requests")
    }


async def asked(url: str, **more: object) -> None:
    try:
        await fetch("GET", url, any_port=True, **more)  # type: ignore[arg-type]
    except Refused:
        return


@pytest.fixture(autouse=True)
def here():
    with override_settings(PDCP_PROBE_NETWORKS=parse_networks("127.0.0.0/8")):
        yield


async def test_an_answer_of_any_status_is_an_answer_and_is_timed():
    before = told()
    async with answering(reply("503 Not Now", b"no")) as heard:
        await asked(heard.url)
    grown = told().grown_since(before)
    assert result(grown) == {"answered": 1} and grown["pdcp_outgoing_request_seconds_count"] == 1


async def test_who_refuses_says_nothing_or_nonsense_or_may_not_be_asked_is_told_apart():
    before = told()
    await asked(f"http://127.0.0.1:{free_port()}")
    async with answering(nothing) as heard:
        await asked(heard.url, timeout=0.05)
    async with answering(garbage) as heard:
        await asked(heard.url)
    await asked("http://192.0.2.1:30000")
    await asked("http://user:secret@127.0.0.1:30000")
    grown = told().grown_since(before)
    assert result(grown) == {"refused": 1, "timeout": 1, "unusable": 1, "forbidden": 2}
    assert "pdcp_outgoing_request_seconds_count" not in grown
