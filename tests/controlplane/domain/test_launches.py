"""The rules of launches, as one table: what happens, and what is then true. See scene.py for the words."""

import pytest

from tests.controlplane.domain.scene import check

# A launch that serves; and the same with a whole candidate beside it.
SERVING = "tp0@1; tp1@2; up 1 2; "
CHALLENGED = SERVING + "tp0@3 token=t; tp1@4 token=t; up 3 4; "

# fmt: off
MEMBERSHIP = [
    ("a PUT takes a free slot of the open launch", "tp0@1; tp1@2", "current 1 2; launch 1; asks 1 2"),
    ("the same rank twice is one rank", "tp0@1; tp0@1", "current 1 -; ranks 1; events -"),
    ("a repeated PUT of a serving launch is no event", SERVING + "tp0@1", "serves 1 2; events -"),
    ("a new http port is told, and membership stays", SERVING + "tp0@1 http=30001", "serves 1 2; events rank.registered"),
    ("one address is one rank: it leaves its other slot", "tp0@1; tp1@1", "current - 1; events rank.left rank.registered"),
    ("a slot whose rank refuses is free again", SERVING + "dead 1; tp0@3; up 2 3", "current 3 2; launch 1"),
    ("a launch with a PUT in the last 120 s is open", "tp0@1; unreached 1; wait 119; tp1@2", "current 1 2"),
    ("after that it is closed to guesses", "tp0@1; unreached 1; wait 121; tp1@2", "current 1 -; candidate - 2"),
    ("unless a rank of it answers", "tp0@1; up 1; wait 500; tp1@2", "current 1 2; candidate -"),
    ("where nobody was ever reached the last word counts", "tp0@1; unreached 1; tp0@3; tp1@2", "current 3 2; launch 1"),
    ("a repeated row counts for the candidate too", SERVING + "tp1@4; tp0@1", "serves 1 2; candidate 1 4"),
    ("a candidate adopts rows put again lately", SERVING + "wait 200; tp0@1; tp1@4", "serves 1 2; candidate 1 4"),
    ("but not those put again long ago", SERVING + "tp0@1; wait 121; tp1@4", "candidate - 4"),
    ("nor those put only once", SERVING + "tp1@4", "candidate - 4"),
    ("an adopted row gives way to the rank itself", SERVING + "tp0@1; tp1@4; tp0@3", "serves 1 2; candidate 3 4"),
    ("an unmarked PUT is no member of a marked launch", "tp0@1 token=t; tp1@2", "current 1 -; candidate - 2"),
    ("nor a marked one of an unmarked launch", "tp0@1; tp1@2 token=t", "current 1 -; candidate - 2"),
    ("an unmarked PUT does not refresh a marked row", "tp0@1 token=t; tp0@1", "events has launch.opened"),
]
CANDIDATES = [
    ("another address in an occupied slot opens a candidate", SERVING + "tp0@3", "serves 1 2; candidate 3 -; health 200"),
    ("another topology does", SERVING + "dp0@3 dp=4", "serves 1 2; candidate 3 - - -"),
    ("other facts do, once the launch is whole", SERVING + "tp0@3 page=16", "serves 1 2; candidate 3 -"),
    ("another token does", SERVING + "tp0@3 token=t", "serves 1 2; candidate 3 -"),
    ("whoever is in its way is asked", SERVING + "tp0@3", "asks 1 2 3"),
    ("a living candidate is not pushed aside", SERVING + "tp0@3 token=t; up 3; tp0@4 token=u",
     "refused has fits neither launch of here; candidate 3 -; asks 3"),
    ("a third engine of one name hears who has its slot", "tp0@1; tp0@101; tp0@201",
     "refused dp0 cp0 tp0 pp0 at 10.0.0.3:201 fits neither launch of here (launch 1 has it at 10.0.0.1:1, launch 2 has it at"
     " 10.0.0.2:101), and the ranks of launch 2 (1 of 2) answer: end those and try again, or give this engine a name of its own"),
    ("nor one that nobody has asked yet", SERVING + "tp0@3 token=t; tp0@4 token=u", "refused has fits neither"),
    ("one without a living rank is", SERVING + "tp0@3 token=t; unreached 3; tp0@4 token=u", "candidate 4 -; refused -"),
    ("whose port the newcomer has is", SERVING + "tp0@3 token=t; up 3; tp0@3 token=u", "candidate 3 -; refused -"),
    ("a PUT that is refused throws nobody out", SERVING + "tp0@3 token=t; tp1@4 token=t; up 3 4; tp0@3 token=u",
     "refused has fits neither; candidate 3 4"),
    ("a candidate whose ranks all refuse is dropped", SERVING + "tp0@3; dead 3", "serves 1 2; candidate -; health 200"),
    ("a launch is never dropped by age", "tp0@1; unreached 1; wait 1000000; unreached 1", "current 1 -"),
    ("a launch whose ranks all refuse is dropped", "tp0@1; dead 1", "current -; happened has launch.dropped"),
]
CONFLICTS = [
    ("facts that differ within a launch are refused by name", "tp0@1; up 1; tp1@2 page=16",
     "refused page_size differs within launch 1: dp0 cp0 tp1 pp0 sent 16, dp0 cp0 tp0 pp0 has 64; current 1 -; asks 1"),
    ("against a rank that registered a moment ago too", "tp0@1; unreached 1; wait 59; tp1@2 page=16", "refused has page_size"),
    ("not against one of long ago that does not answer", "tp0@1; unreached 1; wait 61; tp1@2 page=16",
     "refused -; candidate - 2"),
    ("long ago, but it answers", "tp0@1; up 1; wait 61; tp1@2 page=16", "refused has page_size"),
    ("not against the sender's own row", "tp0@1; up 1; tp0@2 page=16", "refused -; candidate 2 -"),
    ("a null agrees with anything, and is filled", "tp0@1; tp1@2 layout=hnd; up 1 2", "serves 1 2; layout hnd"),
    ("the http port may differ", "tp0@1 http=1; tp1@2 http=2; up 1 2", "serves 1 2"),
    ("one token, two topologies", "tp0@1 token=t; dp0@2 dp=4 token=t", "refused has with the same token"),
    ("one token, two page sizes", "tp0@1 token=t; tp1@2 token=t page=16", "refused has page_size"),
]
LEAVING = [
    ("one refusal is no verdict", SERVING + "refused 1", "serves 1 2; again 1; health 200"),
    ("two within 0.3 s are none either", SERVING + "refused 1; wait 0.2; refused 1", "serves 1 2; again 1"),
    ("two 0.3 s apart are", SERVING + "refused 1; wait 0.3; refused 1", "current - 2; health 503; serves -"),
    ("an answer in between acquits", SERVING + "refused 1; wait 1; up 1; wait 1; refused 1", "serves 1 2; health 200"),
    ("silence is no refusal", SERVING + "silent 1; wait 9; silent 1", "serves 1 2; health 200"),
    ("nor is a stranger at the port", SERVING + "stranger 1; wait 9; stranger 1", "serves 1 2; health 200"),
    ("nor a rank out of reach", SERVING + "unreached 1; wait 9; unreached 1", "serves 1 2; health 200"),
    ("refused at its first probe, a row of an open launch leaves", "tp0@1; up 1; tp1@2; dead 2", "current 1 -"),
    ("one that hung up at its first probe and refuses now is", "tp0@1; tp1@2; silent 1; up 2; dead 1", "current - 2; health 503"),
    ("a rank never reached is not judged once its launch serves", "tp0@1; tp1@2; unreached 1 2; dead 1",
     "serves 1 2; health 200"),
]
COMPLETION = [
    ("full is not complete before a probe round", "tp0@1; tp1@2", "serves -"),
    ("a rank missing", "tp0@1; up 1", "serves -; ranks 1"),
    ("a suspect is waited for", "tp0@1; tp1@2; up 1; refused 2", "serves -"),
    ("a refused rank is missing", "tp0@1; tp1@2; up 1; dead 2", "serves -; current 1 -"),
    ("never reached counts as present", "tp0@1; tp1@2; unreached 1 2", "serves 1 2; health 200"),
    ("out of the probed networks too", "tp0@1 outside; tp1@2 outside", "serves 1 2; asks -"),
    ("a proof of before is renewed", "tp0@1; up 1; wait 3; tp1@2; up 2", "serves -; asks 1"),
    ("and then it opens", "tp0@1; up 1; wait 3; tp1@2; up 2; up 1", "serves 1 2"),
    ("a first completion owes no flush", SERVING, "serves 1 2; health 200"),
    ("a second one does", SERVING + "dead 1; tp0@3; up 2 3", "serves -; current 3 2; health 503"),
    ("until the decodes know", SERVING + "dead 1; tp0@3; up 2 3; flushed", "serves 3 2; health 200"),
    ("a broken launch owes more than a flush", SERVING + "dead 1; flushed", "health 503; serves -"),
    ("half a dead launch does not complete the next", "tp0@1; up 1; dead 1; tp1@2; up 2", "current - 2; serves -"),
    ("nor one whose death comes out at the round", "tp0@1; up 1; wait 3; tp1@2; up 2; dead 1", "current - 2; serves -"),
    ("two halves of one launch find together", "tp0@1; up 1; wait 3; tp1@2; up 2; tp0@3; dead 1; up 2 3",
     "serves 3 2; candidate -; health 200"),
    ("also where nobody can be asked, in the place of a launch that served",
     SERVING + "dead 1; tp0@11 outside; tp1@12 outside; dead 2; flushed", "serves 11 12; candidate -; health 200"),
    ("a rank that restarts before its death is noticed too", SERVING + "tp0@3; up 3; dead 1; up 2 3",
     "current 3 2; candidate -; health 503"),
    ("also when one rank has its old port",
     "tp1@2 of=3; tp2@6 of=3; up 2 6; tp0@3 of=3; tp1@4 of=3; tp2@6 of=3; dead 2; up 3 4 6", "serves 3 4 6; candidate -"),
    ("and one that its neighbours outlive while they PUT again", "tp0@1 of=3; tp1@2 of=3; tp2@3 of=3; up 1 2 3;"
     "tp0@4 of=3; tp1@2 of=3; up 4; dead 1; up 2 3 4; flushed", "serves 4 2 3; candidate -"),
    ("as one that restarts after it", SERVING + "dead 1; tp0@3; up 2 3", "current 3 2; candidate -; health 503"),
]
PROMOTION = [
    ("the old launch serves while it answers", CHALLENGED, "serves 1 2; candidate 3 4; health 200"),
    ("also when one of its ranks is suspect", CHALLENGED + "refused 1 2", "serves 1 2; candidate 3 4"),
    ("and gives way when nobody of it answers", CHALLENGED + "dead 1 2", "current 3 4; candidate -; health 503; serves -"),
    ("a broken launch gives way to a whole one", CHALLENGED + "dead 1", "current 3 4; candidate -; health 503"),
    ("served after the flush", CHALLENGED + "dead 1 2; flushed", "serves 3 4; health 200"),
    ("an old rank at an address of the candidate is in nobody's way", SERVING + "tp0@1 token=t; tp1@4 token=t; dead 2; up 1 4",
     "current 1 4; candidate -"),
    ("an operator may supersede", CHALLENGED + "supersede", "current 3 4; health 503"),
    ("but not with half a candidate", SERVING + "tp0@3 token=t; supersede",
     "refused has dp0 cp0 tp1 pp0 not registered; serves 1 2"),
    ("nor without one", SERVING + "supersede", "refused has no candidate"),
    ("ranks that cannot be asked do not hold it up", "tp0@1; tp1@2; unreached 1 2; tp0@3; tp1@4; unreached 1 2 3 4",
     "current 3 4; unchecked True; health 503"),
    ("an old verdict is renewed first", SERVING + "silent 1 2; wait 99; tp0@3 token=t; tp1@4 token=t; up 3 4",
     "serves 1 2; candidate 3 4; asks 1 2"),
    ("and then counts", SERVING + "silent 1 2; wait 99; tp0@3 token=t; tp1@4 token=t; up 3 4; silent 1 2", "current 3 4"),
    ("a full launch has a right to its first round", "tp0@1; tp1@2; tp0@3 token=t outside; tp1@4 token=t outside",
     "current 1 2; candidate 3 4"),
    ("an unfinished launch steps back and may go on", "tp0@1 token=t; up 1; tp0@3 token=u; tp1@4 token=u; up 3 4",
     "serves 3 4; candidate 1 -"),
    ("and is there when its time comes",
     "tp0@1 token=t; up 1; tp0@3 token=u; tp1@4 token=u; up 3 4; tp1@2 token=t; up 1 2; dead 3 4", "current 1 2; candidate -"),
    ("and the debt of an earlier one is not forgotten",
     SERVING + "dead 1 2; tp0@3 token=t; up 3; tp0@5 token=u; tp1@6 token=u; up 5 6; flushed", "serves 5 6; health 200"),
    ("whose other ranks are gone takes over half", SERVING + "tp0@3; up 3; dead 1 2", "current 3 -; health 503"),
]
CLAIMS = [
    ("a token does not displace a living owner", "tp0@1 token=t; tp1@2 token=t; up 1 2; tp0@3 token=t",
     "serves 1 2; claims 3; events rank.claimed; refused -; asks 1"),
    ("a claim is told once", "tp0@1 token=t; up 1; tp0@3 token=t; tp0@3 token=t", "claims 3; events -"),
    ("it takes the slot when the owner leaves", "tp0@1 token=t; tp1@2 token=t; up 1 2; tp0@3 token=t; dead 1",
     "current 3 2; claims -; health 503"),
    ("an owner that nobody reached gives way", "tp0@1 token=t; unreached 1; tp0@3 token=t", "current 3 -; claims -"),
]
LATE = [
    ("a PUT of the launch just replaced, at an address that refuses", CHALLENGED + "supersede; refused 1; tp0@1",
     "events rank.came_late; candidate -; refused -; asks 1"),
    ("is stored when somebody answers there after all", CHALLENGED + "supersede; refused 1; tp0@1; up 1", "candidate 1 -"),
    ("a minute later it is a launch", CHALLENGED + "supersede; refused 1; wait 61; tp0@1", "candidate 1 -"),
    ("at an address that answers it is a launch at once", CHALLENGED + "supersede; up 1; tp0@1", "candidate 1 -"),
    ("from elsewhere too", CHALLENGED + "supersede; refused 1; tp0@9", "candidate 9 -"),
]
TOGETHER = [
    ("two engines of one name begin together: each host's ranks stay with their own", "tp0@1; tp0@101; tp1@2; tp1@102",
     "current 1 2; candidate 101 102"),
    ("also when the first ranks seemed to be one launch", "tp0@1; tp1@102; tp1@2; tp0@101; up 1 2 101 102",
     "serves 101 102; candidate 1 2; refused -"),
    ("whoever is the first to contradict", "tp0@1; tp1@102; tp0@101; tp1@2; up 1 2 101 102", "serves 1 2; candidate 101 102"),
    ("each parted rank is told to have moved", "tp0@1 of=3; tp1@102 of=3; tp1@2 of=3",
     "events rank.left launch.opened rank.registered rank.registered; candidate 1 2 -; current - 102 -"),
    ("a newcomer without neighbours opens a launch of its own", "tp0@1; tp1@102; tp1@202", "current 1 102; candidate - 202"),
    ("ranks of one host cannot be told apart", "tp0@1; tp1@2; tp0@3; tp1@4", "current 1 2; candidate 3 4"),
    ("what was served is never parted", "tp0@1; tp1@102; up 1 102; tp1@2", "serves 1 102; candidate - 2; health 200"),
    ("nor a launch with a token", "tp0@1 token=t; tp1@102 token=t; tp1@2 token=t", "current 1 102; claims 2; candidate -"),
    ("nor for a rank that is gone", "tp0@1; tp1@102; unreached 102; tp1@2", "current 1 2; candidate -"),
    ("an engine of two nodes is one launch", "tp0@1 of=4; tp2@101 of=4; tp1@2 of=4; tp3@102 of=4", "current 1 2 101 102"),
    ("a restart on the same hosts, seen before its deaths, is one too", "tp0@1; tp1@102; up 1 102; tp0@3; tp1@104; dead 1 102;"
     "up 3 104; flushed", "serves 3 104; candidate -"),
]
CLOCK = [
    ("a clock that is set back between two refusals delays no verdict", SERVING + "refused 1; wait -3600; dead 1",
     "current - 2; health 503"),
    ("nor makes one of two that came at once", SERVING + "refused 1; wait -3600; refused 1; wait 0.2; refused 1", "serves 1 2"),
    ("nor holds up a launch that is full", "tp0@1; tp1@2; wait -3600; up 1 2", "serves 1 2"),
    ("nor one that takes over", SERVING + "tp0@3 token=t; tp1@4 token=t; wait -3600; up 3 4; silent 1 2", "current 3 4"),
    ("nor a rank that was replaced alone", SERVING + "tp0@3; wait -3600; up 3; dead 1; up 2 3", "current 3 2; candidate -"),
]
ORDERS = [
    ("evict one rank", SERVING + "evict tp0", "current - 2; health 503; serves -"),
    ("evict all of them", SERVING + "evict", "current -; health 503; serves -"),
    ("and the flush may end", SERVING + "evict; flushed", "current -; health 200"),
    ("evict the candidate too", CHALLENGED + "evict", "current -; candidate -"),
    ("evict one launch and not the other", CHALLENGED + "evict of 2", "current 1 2; candidate -; health 200"),
    ("a rank of that launch and not of the other", CHALLENGED + "evict tp0 of 1", "current 3 4; candidate -; health 503"),
    ("evict a launch that is over", CHALLENGED + "evict of 7", "refused no rank is registered in launch 7 of here"),
    ("put another candidate in charge than was shown", CHALLENGED + "supersede of 7",
     "current 1 2; candidate 3 4; refused the candidate of here is launch 2 now, and not launch 7"),
    ("evict nobody", "evict", "refused has no rank is registered in here"),
    ("evict a slot that is free", SERVING + "evict tp7", "refused dp0 cp0 tp7 pp0 is not registered in here"),
    ("an evicted rank may come back", SERVING + "evict tp0; tp0@1; up 1 2; flushed", "serves 1 2"),
    ("evicted before it served, no decode has to know", "tp0@1; evict", "health 200; current -"),
]
# fmt: on
TABLE = (
    MEMBERSHIP + CANDIDATES + CONFLICTS + LEAVING + COMPLETION + PROMOTION + CLAIMS + LATE + TOGETHER + CLOCK + ORDERS
)


@pytest.mark.parametrize(("script", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_launches(script: str, expected: str):
    check(script, expected)
