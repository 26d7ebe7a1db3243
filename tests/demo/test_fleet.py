"""The demo as people start it: everything comes up, every page has its content, what is broken heals, and nothing stays."""

from __future__ import annotations

import asyncio
import html
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from demo.acts import Act
from demo.chaos import Chaos
from demo.fleet import Fleet, fleet
from demo.plan import ACTS, AGENTS, GATEWAY, REPLICA, SEED
from demo.settings import Settings
from tests.demo.shots import Shots
from tests.soak.hooks import Note
from tests.support.machine import slowness
from tests.support.processes import Child, clean_env
from workers.agent.prefill import BIND_SECONDS

QUICK = ("room-spoiled", "directory-killed", "decode-killed")
PICTURED = ("room-spoiled", "decode-killed")
SHOWN_SECONDS = 20.0


class Site:
    """The pages, as somebody sees them who signed in with what the demo printed."""

    def __init__(self, running: Fleet) -> None:
        self.http = httpx.AsyncClient(base_url=running.stage.plan.web, follow_redirects=True, timeout=30)
        self.password = running.password

    async def sign_in(self) -> None:
        form = await self.http.get("/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
        assert token is not None, form.text
        fields = {"username": "demo", "password": self.password, "csrfmiddlewaretoken": token[1], "next": "/"}
        home = await self.http.post(form.url, data=fields, headers={"Referer": str(form.url)})
        assert home.status_code == 200 and "Needs attention" in home.text, home.text[:2000]

    async def shows(self, path: str, *wanted: str) -> None:
        """Wait until all of it stands there."""
        end = time.monotonic() + SHOWN_SECONDS * slowness()
        while missing := [text for text in wanted if text not in (said := await self.text(path))]:
            assert time.monotonic() < end, f"{path} lacks {missing}:\n{said}"
            await asyncio.sleep(0.3)

    async def text(self, path: str) -> str:
        answer = await self.http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        body = re.sub(r"<(script|style|svg).*?</\1>", " ", answer.text, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def below(others: set[psutil.Process]) -> list[psutil.Process]:
    """Every process that this one started, but the `others` (databases and routers of tests before this) and theirs."""
    own = [child for child in psutil.Process().children() if child not in others]
    return own + [grandchild for child in own for grandchild in child.children(recursive=True)]


@pytest.mark.timeout(400)
async def test_a_fleet_comes_up_every_page_has_its_content_and_what_is_broken_heals():
    others = set(psutil.Process().children())
    async with fleet(Settings(first_port=0, rate=5), asyncio.Event()) as running:
        family = below(others)
        site = Site(running)
        await site.sign_in()
        async with Shots(site.http) as shots:
            room = await every_page_has_its_content(site, running)
            assert running.stage.gateway.failed == 0, list(running.stage.gateway.failures)
            await pictures_of_all_that_is_well(shots, room)
            await a_round_of_chaos_heals(running, site, shots)
        await requests_are_well(running)
        await site.http.aclose()
        family += below(others)
        directory = running.directory
        assert directory.exists()
    assert not psutil.wait_procs(family, timeout=20 * slowness())[1]
    assert not directory.exists()


async def a_round_of_chaos_heals(running: Fleet, site: Site, shots: Shots) -> None:
    lines: list[str] = []

    async def look(key: str, act: Act) -> None:
        if key in PICTURED:
            await shots.everywhere(f"demo-{key}", act.look)

    played, gateway = Chaos(running.stage, acts=QUICK, seed=1, say=lines.append, linger=look), running.stage.gateway
    for key in QUICK:
        failed, began = gateway.failed, time.monotonic()
        await played.play(key)
        # Agents wait for a directory that is soon back; how soon is the machine's affair.
        if key == "directory-killed" and time.monotonic() - began < BIND_SECONDS / 2:
            assert gateway.failed == failed, list(gateway.failures)
    assert played.tale.wrong == [] and played.tale.healed == list(QUICK), "\n".join(lines)
    # Of the room that was spoiled, its page says so.
    found = {match[1] for line in lines if (match := re.search(r"/rooms/(\d+)/", line))}
    assert len(found) == 1, lines
    await site.shows(f"/rooms/{found.pop()}/", "reports other room", "Nothing was consumed")
    await site.shows("/events/", "decode-b")


async def pictures_of_all_that_is_well(shots: Shots, room: int) -> None:
    await shots.everywhere("demo", "/")
    await shots.take("demo-room", f"/rooms/{room}/")
    await shots.take("demo-weights", "/weights/")
    await shots.take("demo-pairs", "/pairs/")


async def every_page_has_its_content(site: Site, running: Fleet) -> int:
    """-> a room whose way is proven."""
    room = running.stage.gateway.last_room
    assert room is not None
    await site.shows("/", *AGENTS, SEED, REPLICA, "Nothing needs a person")
    await site.shows("/instances/prefill-a/", "dp2 cp1 tp2 pp1", "serving 2 /2 DP groups", "page_size 4")
    await site.shows("/instances/decode-a/", "is up")
    await site.shows("/pairs/", "2 pairs · 2 usable", "decode-a tp2 pp1", "decode-b tp1 pp1")
    await site.shows(f"/gateways/{GATEWAY}/", "It has acknowledged everything", "prefill-a decode-a ok", "decode-b ok")
    await site.shows("/rooms/", "prefill-a", "bound by its ranks")
    await site.shows(f"/rooms/{room}/", "all 5 rungs are proven", "5 of 5 rungs proven")
    await site.shows("/weights/", SEED, f"{REPLICA} enabled published 2 of at least 2 ranks {SEED}", "Publishing 2")
    await site.shows(f"/weights/{REPLICA}/", f"Had from {SEED}", "Sessions 2")
    return room


async def requests_are_well(running: Fleet) -> None:
    """Both decodes serve again."""
    gateway = running.stage.gateway
    well, end = gateway.well, time.monotonic() + SHOWN_SECONDS * slowness()
    while gateway.well < well + 5:
        assert time.monotonic() < end, list(gateway.failures)[-5:]
        await asyncio.sleep(0.1)


@contextmanager
def demo(folder: Path, *words: str) -> Iterator[Child]:
    """The command, with its data in a directory below `folder`."""
    (folder / "tmp").mkdir()
    env = {**clean_env(), "TMPDIR": str(folder / "tmp")}
    child = Child([sys.executable, "-m", "demo", "--ports", "0", *words], env=env, log=folder / "demo.log")
    try:
        yield child
    finally:
        child.kill9()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_while_it_starts_no_process_stays(how, tmp_path):
    with demo(tmp_path) as child:
        child.wait_for_line("^starting the fleet, in ", timeout=60)
        itself, end = psutil.Process(child.pid), time.monotonic() + 60 * slowness()
        while len(family := itself.children(recursive=True)) < 6:
            assert time.monotonic() < end and child.exit_code is None, child.log()
            time.sleep(0.05)
        itself.send_signal(how)
        assert child.wait(60) == (0 if how == signal.SIGINT else -how), child.log()
    assert not psutil.wait_procs(family, timeout=30 * slowness())[1]
    if how == signal.SIGINT:
        assert not list((tmp_path / "tmp").glob("pd-demo-*"))


@pytest.mark.soak
def test_a_whole_round_of_chaos_is_shown_and_heals(tmp_path, note: Note):
    with demo(tmp_path, "--chaos", "--calm", "0", "--rounds", "1", "--seconds", "1200", "--seed", "3") as child:
        said = child.wait_for_line(r"^(\d+) times something was broken, shown and mended: (.*)$", timeout=1300)
        assert child.wait(120) == 0, child.log()
    assert sorted(said[2].split(", ")) == sorted(ACTS)
    # "08:11:08   9.9 s well: …", of each act.
    well = [float(found[1]) for line in child.lines if (found := re.search(r"(\d+\.\d) s well: ", line))]
    note(
        "broken, shown and mended", f"{len(ACTS)} acts; the longest took {max(well):.0f} s, five of them to look at it"
    )
    note("requests", next(line for line in reversed(child.lines) if " requests, " in line).strip())
