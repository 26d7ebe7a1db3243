"""What is known of an engine, in a sentence without ages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .engine_health import Memory, State, Why


def sentence(memory: Memory) -> str:
    """What is known, for people, without ages."""
    return SENTENCES[memory.state](memory).format(at=memory.at or "its engine")


def _unknown(memory: Memory) -> str:
    if not memory.error:
        return "{at} was not asked yet"
    return "{at} has never answered from here: " + _braced(memory.error)


def _silent(memory: Memory) -> str:
    if memory.why is Why.UNREACHED:
        return "{at} cannot be reached any more; that alone proves nothing"
    return "{at} accepts connections and answers nothing; that alone proves nothing"


def _late(memory: Memory) -> str:
    if memory.why is Why.BUSY:
        return "{at} does not answer its /health well, and computes: it is busy"
    return "{at} missed probes: " + _braced(memory.error)


def _down(memory: Memory) -> str:
    match memory.why:
        case Why.REFUSED:
            return "{at} refuses connections: nobody listens there"
        case Why.FAILING:
            status = f"answers {memory.status}" if memory.status not in (None, 200) else "did not answer 200"
            return "{at} says itself that it is not well: its /health " + status
    return "{at} has not answered as an engine for long" + (f": {_braced(memory.error)}" if memory.error else "")


def _stranger(memory: Memory) -> str:
    return "whoever answers at {at} is not the engine that is meant: " + _braced(memory.error)


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


SENTENCES: Mapping[State, Callable[[Memory], str]] = {
    State.UNKNOWN: _unknown,
    State.STARTING: lambda memory: "{at} answers that it does not serve yet",
    State.UP: lambda memory: "{at} answers /health with 200",
    State.LATE: _late,
    State.SILENT: _silent,
    State.DOWN: _down,
    State.STRANGER: _stranger,
}
