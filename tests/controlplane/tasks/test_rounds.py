"""How many rounds of a task run at once: slow ones leave threads for the others."""

from contextlib import ExitStack

from controlplane.tasks.rounds import AT_ONCE, Rounds


def test_a_round_too_many_is_left_out_and_a_place_is_given_back_even_by_one_that_failed():
    rounds = Rounds()
    with ExitStack() as running:
        assert all(running.enter_context(rounds.place()) for _ in range(AT_ONCE))
        with rounds.place() as one_too_many:
            assert not one_too_many
        with rounds.place() as still_one_too_many:
            assert not still_one_too_many
    try:
        with rounds.place():
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    with ExitStack() as running:
        assert all(running.enter_context(rounds.place()) for _ in range(AT_ONCE))


def test_tasks_of_another_kind_have_places_of_their_own():
    drains, routers = Rounds(), Rounds()
    with ExitStack() as running:
        for _ in range(AT_ONCE):
            running.enter_context(drains.place())
        assert running.enter_context(routers.place())
