"""Timelines in which sockets add nothing, or minutes would have to pass: the same decisions, with time as an argument."""

from controlplane.domain.contact import Contact
from controlplane.domain.health import FLUSH_LIMIT, Pollers
from controlplane.domain.verdicts import Jury
from tests.controlplane.domain.scene import HOST, Scene, check

SERVING = "tp0@1; tp1@2; up 1 2; "


def test_06_ranks_that_never_answer_complete_and_give_way_unchecked():
    behind_nat = "tp0@1; tp1@2; unreached 1 2; "
    check(behind_nat + "wait 60; unreached 1 2", "serves 1 2; health 200; unchecked False")
    check(behind_nat + "wait 600; tp0@3; tp1@4; unreached 1 2 3 4", "current 3 4; unchecked True; health 503")
    check(behind_nat + "wait 600; tp0@3; tp1@4; unreached 1 2 3 4; flushed", "serves 3 4; health 200; candidate -")


def test_07_what_a_partition_hides_becomes_no_verdict():
    jury, rack = Jury(), {1: (1, 2), 2: (3, 4)}
    scenes = {instance: Scene().play(f"tp0@{a}; tp1@{b}; up {a} {b}") for instance, (a, b) in rack.items()}
    for instance, ports in rack.items():
        for port in ports:
            jury.hear(instance, (HOST, port), Contact.UP, 0.0)
    for contact in (Contact.UNREACHED, Contact.REFUSED):
        for instance, ports in rack.items():
            for port in ports:
                jury.hear(instance, (HOST, port), contact, 2.0)
                if not jury.paused():
                    scenes[instance].play(f"{contact} {port}")
        assert jury.paused()
    for scene in scenes.values():
        scene.play("wait 30")
        assert scene.truth()["health"] == "200"
        assert scene.truth()["serves"] != "-"
    for instance, ports in rack.items():
        for port in ports:
            jury.hear(instance, (HOST, port), Contact.UP, 33.0)
            scenes[instance].play(f"up {port}")
    assert not jury.paused()
    assert [scene.truth()["serves"] for scene in scenes.values()] == ["1 2", "3 4"]


def test_09_three_minutes_of_restart_are_flushed_once():
    scene, pollers = Scene().play(SERVING), Pollers()
    pollers.polled(1, 200, scene.now)
    scene.play("dead 1 2")
    began = scene.directory.debt.since
    for _ in range(36):
        scene.play("wait 5")
        pollers.polled(1, 503, scene.now)
    scene.play("tp0@3; tp1@4; up 3 4")
    assert scene.directory.debt.since == began < scene.now - FLUSH_LIMIT
    assert pollers.waiting(scene.now) == 0
    assert pollers.flush_is_over(began, scene.now)
    scene.play("flushed; wait 5; up 3 4; wait 5; up 3 4")
    assert (scene.truth()["health"], scene.truth()["serves"]) == ("200", "3 4")


def test_09b_a_decode_that_saw_nothing_of_it_is_waited_for():
    scene, pollers = Scene().play(SERVING + "dead 1 2"), Pollers()
    began = scene.directory.debt.since
    pollers.polled(1, 200, began - 1)
    scene.play("wait 10; tp0@3; tp1@4; up 3 4")
    assert not pollers.flush_is_over(began, scene.now)
    assert scene.truth()["serves"] == "-"
