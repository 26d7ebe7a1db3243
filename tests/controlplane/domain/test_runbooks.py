"""Every concern leads to a runbook of its own, and no runbook is left that nothing leads to."""

import ast
from collections.abc import Iterator
from pathlib import Path

import controlplane.domain
from controlplane.domain.attention_engines import NEXT
from controlplane.domain.engine_health import State
from controlplane.domain.runbooks import OTHER, RUNBOOKS, runbook_of

SOURCES = sorted(Path(controlplane.domain.__file__).parent.glob("attention*.py"))
OF_VARIABLES = {"kind": {"gateway", "router"}, "one.at": {"instance"}}
"""What stands where a place is not written out."""

ENGINES = {f"{state.value}-instance" for state in (*NEXT, State.SILENT, State.LATE)}


def texts(node: ast.expr) -> set[str]:
    """The words that an expression can be, as far as they are written in it."""
    if isinstance(node, ast.IfExp):
        return texts(node.body) | texts(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def kinds(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Call):
        return texts(node.args[0]) or OF_VARIABLES[ast.unparse(node.args[0])]
    return OF_VARIABLES[ast.unparse(node)]


def concerns() -> Iterator[tuple[str, set[str], set[str]]]:
    """Where one is made, in which states, about which kinds of places."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Concern":
                said = {word.arg: word.value for word in node.keywords}
                yield f"{path.name}:{node.lineno}", texts(said["state"]), kinds(said["at"])


def test_every_concern_has_a_runbook_and_every_runbook_a_concern():
    led_to = set(ENGINES)
    for where, states, places in concerns():
        for state in states:
            entries = {f"{state}-{kind}" for kind in places} & set(RUNBOOKS)
            assert entries, f"{where}: domain/runbooks.py has nothing for {state} of {places}"
            led_to |= entries
    assert led_to | {OTHER} == set(RUNBOOKS)


def test_a_runbook_says_what_it_means_where_to_look_and_what_to_do():
    for key, book in RUNBOOKS.items():
        assert book.means.endswith(".") and book.look and book.do, key
        assert runbook_of(f"{'' if key == OTHER else 'many:'}{key.replace('-', ':', 1)}:x") == key
