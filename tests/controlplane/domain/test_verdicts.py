"""The pause of verdicts: a cut cable of ours is told from deaths of theirs."""

from controlplane.domain.contact import Contact
from controlplane.domain.verdicts import FORGET_SECONDS, Jury

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
