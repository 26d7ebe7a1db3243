"""A table's language: what happens to one instance, in words, and what is then true of it.

`tp0@1` is a PUT of slot tp0 at port 1 (TP 2, page size 64); `up 1 2`, `refused 1`, `silent 1`, `unreached 1`, `stranger 1`
are verdicts of one probe round; `dead 1` is two refusals half a second apart; `wait 61`, `evict`, `evict tp0 of 1`,
`supersede`, `flushed` are what they say. A PUT takes `page=16 layout=hnd of=4 dp=2 token=t http=30001 outside`. Each hundred
of ports is on a host of its own: 1 to 99 on the first one, 100 to 199 on the second.
"""

from controlplane.domain import orders
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Decision, Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.health import health_status
from controlplane.domain.launch import Launch
from controlplane.domain.observation import observe
from controlplane.domain.registration import register
from controlplane.domain.topology import SharedFacts, Slot, Topology

HOST = "10.0.0.1"
BEGIN = 1_000_000.0


class Scene:
    def __init__(self) -> None:
        self.directory = Directory("here")
        self.now = BEGIN
        self.last = Decision(self.directory)
        self.refused: Refused | None = None
        self.kinds: list[str] = []

    def play(self, script: str) -> "Scene":
        for step in filter(None, (part.strip() for part in script.split(";"))):
            self.now += 0.01
            word, *more = step.split()
            if "@" in word:
                self.decided(register(self.directory, registration(word, more), self.now))
            elif word == "dead":
                self.see(Contact.REFUSED, more)
                self.now += 0.5
                self.see(Contact.REFUSED, more)
            elif word in list(Contact):
                self.see(Contact(word), more)
            elif word == "wait":
                self.now += float(more[0])
            else:
                self.order(word, more)
        return self

    def see(self, contact: Contact, ports: list[str]) -> None:
        self.decided(observe(self.directory, {address_of(port): contact for port in ports}, self.now))

    def order(self, word: str, more: list[str]) -> None:
        try:
            match word:
                case "evict":
                    launch = launch_of(more)
                    slot = slot_of(more[0]) if more else None
                    self.decided(orders.evict(self.directory, slot, why="evicted", now=self.now, launch=launch))
                case "supersede":
                    self.decided(orders.supersede(self.directory, now=self.now, launch=launch_of(more)))
                case "flushed":
                    self.decided(orders.flushed(self.directory, now=self.now))
                case _:
                    raise AssertionError(f"no such step: {word}")
        except Refused as refused:
            self.refused = refused

    def decided(self, decision: Decision) -> None:
        self.last, self.directory, self.refused = decision, decision.directory, decision.refused
        self.kinds += [event.kind for event in decision.events]

    def truth(self) -> dict[str, object]:
        """Everything a row of a table may speak of."""
        directory, current = self.directory, self.directory.current
        return {
            "serves": ports(directory.serving),
            "current": ports(current),
            "candidate": ports(directory.candidate),
            "health": str(health_status(directory, retired=False)),
            "ranks": str(directory.registered),
            "launch": str(current.number) if current else "-",
            "refused": self.refused.sentence if self.refused else "-",
            "events": " ".join(event.kind for event in self.last.events) or "-",
            "happened": " ".join(self.kinds),
            "asks": " ".join(str(port) for _, port in sorted(self.last.probe)) or "-",
            "again": " ".join(str(port) for _, port in sorted(self.last.again)) or "-",
            "unchecked": str(current.unchecked) if current else "-",
            "claims": " ".join(str(row.port) for row in current.claims.values()) or "-" if current else "-",
            "layout": str(current.facts.kv_layout) if current else "-",
        }


def check(script: str, expected: str) -> None:
    """Play, then compare: `name value` must be equal, `name has text` must be contained, `name lacks text` must not."""
    truth = Scene().play(script).truth()
    for part in (part.strip() for part in expected.split(";")):
        name, _, value = part.partition(" ")
        found = str(truth[name])
        how, _, text = value.partition(" ")
        if how == "has":
            assert text in found, f"{part!r}, but {name} is {found!r}"
        elif how == "lacks":
            assert text not in found, f"{part!r}, but {name} is {found!r}"
        else:
            assert found == value, f"{part!r}, but it is {found!r} in {truth}"


def registration(word: str, more: list[str]) -> Registration:
    where, _, port = word.partition("@")
    said = dict(item.split("=") for item in more if "=" in item)
    dp = int(said.get("dp", 1))
    topology = Topology(dp, 1, int(said.get("of", 2 if dp == 1 else 1)), 1)
    facts = SharedFacts(int(said.get("page", 64)), "auto", kv_layout=said.get("layout"))
    flags = ("unprobed",) if "outside" in more else ()
    http = int(said.get("http", 30000))
    return Registration(slot_of(where), topology, facts, *address_of(port), http, said.get("token"), flags)


def address_of(port: str) -> tuple[str, int]:
    return (HOST if int(port) < 100 else f"10.0.0.{1 + int(port) // 100}"), int(port)


def slot_of(text: str) -> Slot:
    axis, rank = text[:2], int(text[2:])
    return Slot(rank, 0, 0, 0) if axis == "dp" else Slot(0, 0, rank, 0)


def ports(launch: Launch | None) -> str:
    """Ports in slot order, `-` for an empty slot; one dash when there is no launch."""
    if launch is None:
        return "-"
    rows = (launch.rows.get(slot) for slot in launch.topology.slots())
    return " ".join(str(row.port) if row else "-" for row in rows)


def launch_of(words: list[str]) -> int | None:
    """Take `of NUMBER` from the end of the words."""
    if words[-2:-1] != ["of"]:
        return None
    number = int(words.pop())
    words.pop()
    return number
