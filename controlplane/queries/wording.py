"""How slots, addresses and ages are said to people; the same words on every page and in every command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.domain.addresses import bracketed
from controlplane.domain.topology import Slot, Topology


def slot_name(slot: Slot, topology: Topology | None = None) -> str:
    """The slot without the axes that nobody uses: CP and PP of size 1.

    >>> slot_name(Slot(1, 0, 3, 0), Topology(2, 1, 4, 1)), slot_name(Slot(0, 1, 0, 0), Topology(1, 2, 1, 1))
    ('dp1 tp3', 'dp0 cp1 tp0')
    """
    cp = f" cp{slot.cp}" if topology is None or topology.cp > 1 else ""
    pp = f" pp{slot.pp}" if topology is None or topology.pp > 1 else ""
    return f"dp{slot.dp}{cp} tp{slot.tp}{pp}"


def slot_ranges(slots: Iterable[Slot], topology: Topology | None = None) -> list[tuple[str, int]]:
    """Neighbours along TP under one name, and how many they are.

    >>> slot_ranges([Slot(0, 0, 3, 0), Slot(0, 0, 4, 0), Slot(1, 0, 0, 0)], Topology(2, 1, 8, 1))
    [('dp0 tp3–4', 2), ('dp1 tp0', 1)]
    """
    rows: dict[tuple[int, int, int], list[int]] = {}
    for slot in sorted(slots):
        rows.setdefault((slot.dp, slot.cp, slot.pp), []).append(slot.tp)
    found: list[tuple[str, int]] = []
    for (dp, cp, pp), tps in rows.items():
        first = tps[0]
        for tp, following in zip(tps, [*tps[1:], -1], strict=True):
            if following != tp + 1:
                name = slot_name(Slot(dp, cp, first, pp), topology)
                found.append((name if tp == first else name.replace(f" tp{first}", f" tp{first}–{tp}"), tp - first + 1))
                first = following
    return found


def slot_key(slot: Slot) -> str:
    """The slot in one word, as `--slot` takes it.

    >>> slot_key(Slot(0, 0, 1, 0))
    'dp0.cp0.tp1.pp0'
    """
    return f"dp{slot.dp}.cp{slot.cp}.tp{slot.tp}.pp{slot.pp}"


def address(ip: str, port: int) -> str:
    return f"{bracketed(ip)}:{port}"


def listing(items: Iterable[str], *, limit: int = 4, total: int | None = None) -> str:
    """At most `limit` of them; how many more there are, of `total` when `items` is only the beginning.

    >>> listing(["a", "b", "c"], limit=2), listing(["a", "b"], total=9)
    ('a, b and 1 more', 'a, b and 7 more')
    """
    known = list(items)
    shown = known[:limit]
    more = (total if total is not None else len(known)) - len(shown)
    text = ", ".join(shown)
    return f"{text} and {more} more" if more > 0 else text


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "rank"), counted(2, "rank")
    ('1 rank', '2 ranks')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


UNITS: Sequence[tuple[float, str]] = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """
    >>> span(2.4), span(190), span(7_300), span(0.2)
    ('2 s', '3 min', '2 h', '0.2 s')
    """
    for unit, name in UNITS:
        # Two minutes are said as 120 s: what is young is said exactly.
        if seconds >= unit * (2 if unit > 1 else 1):
            return f"{int(seconds // unit)} {name}"
    return f"{max(seconds, 0.0):.1f} s"


def ago(then: float, now: float) -> str:
    """
    >>> ago(100.0, 102.0)
    '2 s ago'
    """
    return f"{span(now - then)} ago"
