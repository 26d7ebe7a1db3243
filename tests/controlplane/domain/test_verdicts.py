"""The pause of verdicts: a cut cable of ours is told from deaths of theirs."""

from controlplane.domain.contact import Contact
from controlplane.domain.verdicts import FORGET_SECONDS, PANEL, PANEL_LASTS, Jury

RACK = {instance: [("10.0.0.1", 100 * instance + rank) for rank in range(4)] for instance in (1, 2, 3)}


def heard(jury: Jury, contact: Contact, *instances: int, now: float = 0.0) -> bool:
    for instance in instances:
        for address in RACK[instance]:
            jury.hear(instance, address, contact, now)
    return jury.paused()


def full_jury() -> Jury:
    jury = Jury()
    assert not heard(jury, Contact.UP, 1, 2, 3)
    return jury


def test_one_instance_that_dies_whole_is_ordinary():
    assert not heard(full_jury(), Contact.REFUSED, 1)


def test_even_when_it_is_all_there_is():
    jury = Jury()
    heard(jury, Contact.UP, 1)
    assert not heard(jury, Contact.REFUSED, 1)


def test_more_than_half_of_several_is_our_fault_whatever_their_silence_looks_like():
    for contact in (Contact.REFUSED, Contact.UNREACHED, Contact.SILENT):
        assert heard(full_jury(), contact, 1, 2)


def test_half_is_not_more_than_half():
    jury = Jury()
    heard(jury, Contact.UP, 1, 2)
    assert not heard(jury, Contact.UNREACHED, 1)
    jury.hear(2, RACK[2][0], Contact.UNREACHED, 0.0)
    assert jury.paused()


def test_it_heals_by_itself():
    jury = full_jury()
    assert heard(jury, Contact.UNREACHED, 1, 2)
    assert not heard(jury, Contact.UP, 2, now=5.0)


def test_ranks_never_reached_have_no_voice():
    jury = Jury()
    heard(jury, Contact.UP, 1)
    assert not heard(jury, Contact.UNREACHED, 2, 3)


def test_a_handful_says_nothing_about_a_partition():
    jury = Jury()
    for instance in (1, 2, 3):
        jury.hear(instance, RACK[instance][0], Contact.UP, 0.0)
    for instance in (1, 2, 3):
        jury.hear(instance, RACK[instance][0], Contact.REFUSED, 1.0)
    assert not jury.paused()


def test_who_fails_for_long_is_no_longer_part_of_what_could_be_reached():
    jury = full_jury()
    assert heard(jury, Contact.REFUSED, 1, 2, now=1.0)
    assert not heard(jury, Contact.REFUSED, 1, 2, now=FORGET_SECONDS + 1.1)


def test_who_is_no_longer_registered_is_forgotten():
    jury = full_jury()
    assert heard(jury, Contact.REFUSED, 1, 2)
    jury.forget(set(RACK[3]) | set(RACK[1]))
    assert not jury.paused()


LARGE = [(instance, ("10.0.0.2", 1000 * instance + rank)) for rank in range(100) for instance in range(1, 11)]


def first(candidates, count):
    return candidates[:count]


def large_jury() -> Jury:
    jury = Jury()
    for instance, address in LARGE:
        jury.hear(instance, address, Contact.UP, 0.0)
    return jury


def test_of_who_stops_it_is_said_so_once():
    jury = full_jury()
    answers = (Contact.UP, Contact.REFUSED, Contact.REFUSED, Contact.UP, Contact.SILENT)
    stopped = [jury.hear(1, RACK[1][0], contact, 1.0) for contact in answers]
    assert stopped == [False, True, False, False, True]
    assert not jury.hear(9, ("10.0.0.9", 1), Contact.REFUSED, 1.0), "nobody knows that it ever answered"


def test_a_panel_of_those_that_answered_tells_at_once_that_most_of_a_large_fleet_stopped():
    jury = large_jury()
    jury.hear(*LARGE[-1], Contact.REFUSED, 1.0)
    panel = jury.summon(1.0, first)
    assert len(panel) == PANEL and LARGE[-1][1] not in panel
    for heard, (address, instance) in enumerate(panel.items(), start=1):
        jury.hear(instance, address, Contact.REFUSED, 1.1)
        assert jury.paused() is (heard > PANEL // 2), heard
    for address, instance in panel.items():
        jury.hear(instance, address, Contact.UP, 2.0)
    assert not jury.paused()


def test_a_panel_that_answers_leaves_the_dead_dead():
    jury = large_jury()
    dead = [(instance, address) for instance, address in LARGE if instance in (9, 10)]
    jury.hear(*dead[0], Contact.REFUSED, 1.0)
    panel = jury.summon(1.0, first)
    for address, instance in panel.items():
        jury.hear(instance, address, Contact.REFUSED if instance in (9, 10) else Contact.UP, 1.1)
    for instance, address in dead:
        jury.hear(instance, address, Contact.REFUSED, 1.2)
        assert not jury.paused()


def test_one_panel_at_a_time_and_none_when_it_is_known_already():
    jury = large_jury()
    jury.hear(*LARGE[0], Contact.REFUSED, 1.0)
    assert jury.summon(1.0, first)
    assert not jury.summon(1.0 + PANEL_LASTS / 2, first)
    assert jury.summon(1.0 + PANEL_LASTS, first)
    for instance, address in LARGE[:501]:
        jury.hear(instance, address, Contact.REFUSED, 3.0)
    assert jury.paused() and not jury.summon(9.0, first)
