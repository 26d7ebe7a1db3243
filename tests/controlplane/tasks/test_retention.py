"""Retention killed at any step: what is kept is told right at every moment, and the next round goes on."""

import signal
import subprocess
import sys
import time

from controlplane.commands import archiving, compaction
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.ledger import tail
from controlplane.models import ArchivedLaunch, Event, Launch, Rank, StoredPart, StoredState
from controlplane.queries import state
from tests.controlplane.queries.whole_fleet import WholeFleet
from tests.controlplane.queries.world import World
from tests.controlplane.tasks.dying_retention import STEPS
from tests.support.processes import ROOT

PAIR = Topology(1, 1, 2, 1)
DAY = 86_400.0
SETTINGS = {"DJANGO_SETTINGS_MODULE": "controlplane.settings"}


def killed(step: str, env: dict[str, str], now: float) -> None:
    argv = [sys.executable, "-m", "tests.controlplane.tasks.dying_retention", step, str(now)]
    done = subprocess.run(argv, env=env | SETTINGS, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stderr


def told(then: dict[int, dict]) -> set[int]:
    """Of which revisions it can be told how it was; of those it is told right."""
    found = set()
    for revision, read in then.items():
        try:
            assert state.as_of(revision) == read, revision
            found.add(revision)
        except Refused as refused:
            assert refused.code == "cursor_gone"
    return found


def test_the_ledger_is_told_right_whatever_step_of_its_compaction_was_the_last(on_backend):
    fleet, then = WholeFleet(), {}
    for name in ("a", "b", "c", "d"):
        fleet.add(name)
        fleet.launch(name, PAIR, 4000)
        cursor, read = state.fleet_state()
        then[cursor.revision] = read
    head = max(then)
    old = time.time() - 20 * DAY
    Event.objects.using(FACTS).filter(revision__lte=head).update(at=old)
    kept = set(then)
    for step in STEPS[:4]:
        killed(step, on_backend.env, time.time())
        now_told = told(then)
        assert now_told <= kept and head in now_told, step
        kept = now_told
        # Readers from before are told that it is gone, or can go on without a gap.
        revisions = list(Event.objects.using(FACTS).order_by("revision").values_list("revision", flat=True))
        assert revisions == list(range(revisions[0], head + 1)), step
    compaction.compact(now=time.time())
    assert told(then) == {head}
    finished = StoredState.objects.using(FACTS).values("revision")
    assert not StoredPart.objects.using(FACTS).exclude(revision__in=finished).exists()


def test_a_launch_is_in_one_place_or_the_other_whatever_step_of_its_move_was_the_last(on_backend):
    world = World("a", ago=5000.0)
    ports: list[int] = []
    for number in range(4):
        world.refuse(*ports)
        world.now += 100
        ports = world.launch(PAIR, first_port=20_000 + 10 * number, token=f"t{number}")
    before = state.fleet_state()[1]
    for step in STEPS[4:]:
        killed(step, on_backend.env, time.time() + 2 * DAY)
        here = set(Launch.objects.using(FACTS).values_list("number", flat=True))
        there = set(ArchivedLaunch.objects.using(FACTS).values_list("number", flat=True))
        assert here | there == {1, 2, 3, 4} and not here & there, step
        assert set(Rank.objects.using(FACTS).values_list("launch", flat=True)) == here, step
    archiving.archive_ended(now=time.time() + 2 * DAY)
    assert ArchivedLaunch.objects.using(FACTS).count() == 3
    assert state.fleet_state()[1] == before
    assert tail.first() == 1


def test_rounds_at_once_do_no_more_than_one(on_backend):
    fleet = WholeFleet()
    fleet.add("a")
    argv = [sys.executable, "-c", BESIDE]
    running = [
        subprocess.Popen(argv, env=on_backend.env | SETTINGS, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in running:
        assert process.wait(100) == 0, process.stderr.read()
    assert StoredState.objects.using(FACTS).count() == 1
    assert StoredPart.objects.using(FACTS).count() == 2


BESIDE = """
import time, django
django.setup()
from controlplane.commands import compaction, archiving, leftovers
for _ in range(20):
    compaction.compact(now=time.time())
    archiving.archive_ended(now=time.time())
    leftovers.sweep(now=time.time())
"""
