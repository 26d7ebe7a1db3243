"""What is no news changes nothing: so nobody need decide about it."""

import random

from controlplane.domain.contact import Contact
from controlplane.domain.observation import is_news, observe
from tests.controlplane.domain.scene import HOST, Scene

STEPS = [
    *(f"tp{tp}@{port}" for tp, port in ((0, 1), (1, 2), (0, 3), (1, 4), (0, 2))),
    *(
        f"{word} {port}"
        for word in ("up", "refused", "silent", "unreached", "stranger", "dead")
        for port in range(1, 5)
    ),
    *("up 1 2", "up 3 4", "dead 1 2", "wait 1", "wait 61", "wait 130", "evict", "evict tp0", "supersede", "flushed"),
]
AT_REST = "tp0@1; tp1@2; up 1 2"


def test_an_answer_that_is_no_news_changes_nothing_whatever_happened_before():
    choose = random.Random(11)
    quiet = 0
    for _ in range(400):
        scene = Scene().play(AT_REST if choose.random() < 0.5 else "")
        scene.play("; ".join(choose.choices(STEPS, k=choose.randint(0, 8))))
        before = scene.directory
        for port in range(1, 6):
            for contact in Contact:
                if is_news(before, (HOST, port), contact):
                    continue
                quiet += 1
                after = observe(before, {(HOST, port): contact}, scene.now + choose.choice((0.01, 1, 100)))
                assert after.directory == before
                assert not (after.events or after.seen or after.probe or after.again or after.claims)
    assert quiet > 1000, "most of what is heard of a fleet at rest is none"


def test_of_ranks_that_serve_and_answer_only_another_answer_is_news():
    directory = Scene().play(AT_REST).directory
    news = {contact for contact in Contact if is_news(directory, (HOST, 1), contact)}
    assert news == set(Contact) - {Contact.UP}


def test_every_answer_is_news_to_a_rank_under_suspicion_and_to_a_launch_that_is_not_whole():
    suspected = Scene().play(f"{AT_REST}; refused 1").directory
    assert is_news(suspected, (HOST, 1), Contact.UP) and not is_news(suspected, (HOST, 2), Contact.UP)
    begun = Scene().play("tp0@1; up 1").directory
    assert is_news(begun, (HOST, 1), Contact.UP)
    challenged = Scene().play(f"{AT_REST}; tp0@3").directory
    assert is_news(challenged, (HOST, 2), Contact.UP)
