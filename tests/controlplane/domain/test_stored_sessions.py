"""Engine info on its way through the tables: what a new process would load is what this one holds, whatever happened."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.domain import snapshot
from controlplane.domain.contact import Contact
from tests.controlplane.domain.keeper import Keeper

SESSIONS = ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"), st.integers(0, 1), st.sampled_from(SESSIONS), st.sampled_from("ab"), st.booleans()
        ),
        st.tuples(st.just("probe"), st.sets(st.sampled_from(SESSIONS))),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_sessions_are_stored_as_they_are_held(_migrated, steps):
    keeper, now = Keeper(), 1000.0
    for what, *said in steps:
        now += 0.2
        if what == "publish":
            rank, session, digest, old_style = said
            keeper.publish_engine(rank, session, digest, now, old_style=old_style)
        elif what == "probe":
            (living,) = said
            keeper.observe_sessions({s: Contact.UP if s in living else Contact.REFUSED for s in SESSIONS}, now)
        else:
            keeper.restart()
        held = snapshot.take(keeper.directory, keeper.instance.engines)
        assert keeper.followed == held
        stored = keeper.stored()
        assert snapshot.take(stored.directory, stored.engines) == held
        assert stored.engines.epochs == keeper.instance.engines.epochs
    keeper.forget()


def test_after_a_restart_a_session_that_nobody_may_ask_gives_way_at_once(_migrated):
    """Found by a storm of kills: the publication after a restart was acknowledged, and not served until the first round."""
    keeper, elsewhere = Keeper(), ("203.0.113.9:1", "203.0.113.9:2")
    keeper.publish_engine(0, elsewhere[0], "a", 1000.0)
    keeper.restart()
    keeper.publish_engine(0, elsewhere[1], "b", 1001.0)
    assert keeper.instance.engines.live[0].session == elsewhere[1] and not keeper.instance.engines.conflicts
    # One that can be asked is asked first.
    keeper.publish_engine(1, SESSIONS[0], "a", 1002.0)
    keeper.restart()
    keeper.publish_engine(1, SESSIONS[1], "b", 1003.0)
    assert keeper.instance.engines.live[1].session == SESSIONS[0] and keeper.instance.engines.conflicts
    keeper.forget()
