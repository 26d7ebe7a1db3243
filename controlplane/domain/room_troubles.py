"""What is wrong about where a room is bound, the worst first: a sentence each, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from .claims import Held

Trouble = tuple[str, str]
"""What is wrong, and what to do about it."""


def modulo(room: int, groups: int) -> int:
    """The DP group that a decode computes when its prefill follows the room."""
    return room % groups


def worst(room: int, living: Sequence[Held]) -> Trouble | None:
    return next((found for look in TROUBLES for found in look(room, living)), None)


def _no_such_group(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.groups is not None and one.dp >= one.groups:
            yield (
                f"{one.where} does not exist: launch {one.launch} has {one.groups} DP groups",
                f"The rank that bound it belongs to another launch of {one.instance}, or counts its DP rank wrongly.",
            )


def _claimed_twice(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.displaced:
            last = one.displaced[-1]
            yield (
                f"{one.instance} bound it to dp{last.after} while its binding to dp{last.before} was alive: the last one"
                f" counts, and whoever asked before was told dp{last.before}",
                "Two requests used this number within its time to live. Whoever mints rooms must take a new one for each.",
            )


def _in_several(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    if len(living) > 1:
        yield (
            f"It is bound in {len(living)} instances at once, {' and '.join(one.where for one in living[:3])}, and each"
            " answers for itself",
            "One request has one prefill: look which of them its decode asks.",
        )


def _against_modulo(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.groups is not None and one.follows and modulo(room, one.groups) != one.dp:
            yield (
                f"{one.instance} bound it to dp{one.dp}, but says that it follows the room: a decode computes"
                f" dp{modulo(room, one.groups)} and does not ask",
                "Whoever pins a request to a DP rank must take a room whose modulo is that rank.",
            )


def _unanswered(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.because:
            doubt = f"; {one.doubts[0]}" if one.doubts else ""
            yield (
                f"{one.where} holds it, and look-ups are not answered: {one.because}{doubt}",
                f"Look at {one.instance}.",
            )


def _doubted(room: int, living: Sequence[Held]) -> Iterator[Trouble]:
    for one in living:
        if one.doubts:
            yield (
                f"{one.where} holds it, and {one.doubts[0]}",
                f"Whoever fetches from that rank fails or waits: look at the ranks of {one.instance}.",
            )


def about_holders(room: int, living: Sequence[Held]) -> Iterator[tuple[str, Trouble]]:
    """What makes it unclear who holds it, with a word for each."""
    return _named(HOLDERS, room, living)


def about_ranks(room: int, living: Sequence[Held]) -> Iterator[tuple[str, Trouble]]:
    """Why whoever holds it does not answer, with a word for each."""
    return _named(RANKS, room, living)


Look = Callable[[int, Sequence[Held]], Iterator[Trouble]]


def _named(looks: Mapping[str, Look], room: int, living: Sequence[Held]) -> Iterator[tuple[str, Trouble]]:
    return ((code, trouble) for code, look in looks.items() for trouble in look(room, living))


HOLDERS: Mapping[str, Look] = {
    "no_such_group": _no_such_group,
    "claimed_twice": _claimed_twice,
    "in_several": _in_several,
    "against_modulo": _against_modulo,
}
RANKS: Mapping[str, Look] = {"unanswered": _unanswered, "doubted": _doubted}
TROUBLES: tuple[Look, ...] = (*HOLDERS.values(), *RANKS.values())
"""The worst first."""
