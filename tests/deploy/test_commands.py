"""Whoever follows a runbook at night types what it says: every command in it is one that we have, with these options."""

import re
import shlex

import pytest

import tests.support.inside  # noqa: F401
from controlplane.domain.runbooks import RUNBOOKS
from tests.support.processes import ROOT

BESIDE = ("alarms", "engine-health", "metrics", "observed", "retention")
DOCS = [*sorted((ROOT / "docs/runbooks").glob("*.md")), *(ROOT / f"docs/{name}.md" for name in BESIDE)]
COMMAND = re.compile(r"manage\.py ([^`\n#]+)")
NUMBERS = {"ALARM": "12", "ROOM": "5"}


def commands() -> list[tuple[str, str]]:
    # A line may go on in the next one, in prose as behind a backslash.
    texts = {path.name: re.sub(r"\\?\n +", " ", path.read_text(encoding="utf-8")) for path in DOCS}
    return [(name, line.strip()) for name, text in texts.items() for line in COMMAND.findall(text)]


def parser(name: str):
    from django.core.management import get_commands, load_command_class

    return load_command_class(get_commands()[name], name).create_parser("manage.py", name)


@pytest.mark.parametrize(("where", "line"), commands())
def test_a_command_that_the_docs_name_can_be_given_so(where, line):
    name, *given = [NUMBERS.get(word, word) for word in shlex.split(line)]
    parser(name).parse_args(given)


def test_so_can_those_that_alarms_bring_along():
    steps = [step for book in RUNBOOKS.values() for step in (*book.look, *book.do)]
    names = {line.split()[0].rstrip(",.") for step in steps for line in COMMAND.findall(step)}
    assert names and all(map(parser, names))
