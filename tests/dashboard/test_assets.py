"""What browsers load: vendored files are as they came, every file that a template names is there, nothing is inline."""

import hashlib
import re

import pytest

from tests.support.processes import ROOT

STATIC = ROOT / "dashboard" / "static" / "dashboard"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
OURS = [path for path in TEMPLATES if "admin" not in path.parts]


def test_vendored_files_are_as_they_came_and_have_their_licence():
    told = dict(re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", (STATIC / "vendor/README.md").read_text(), re.M))
    there = {path.name for path in (STATIC / "vendor").iterdir() if path.suffix in (".js", ".css")}
    assert set(told) == there
    for name, digest in told.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name
        assert (STATIC / "vendor" / f"{name.split('.')[0]}.LICENSE").read_text().strip()


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_a_template_has_nothing_inline_that_the_content_policy_refuses(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=", text), "a style attribute"
    assert not re.search(r"\son[a-z]+=", text), "an inline handler"
    assert not re.search(r"<script(?![^>]*\ssrc=)", text), "an inline script"
    assert not re.search(r"hx-on|hx-vals=['\"]js:", text), "what htmx would have to evaluate"
    # What a template shows as an example of a command may name an address; what a browser would load may not.
    assert not re.search(r"(?:src|href|action|hx-get|hx-post)=['\"]https?://", text), "a foreign address"


def test_every_static_file_that_a_template_or_module_names_is_there():
    named = {name for path in OURS for name in re.findall(r"{% static ['\"]dashboard/([^'\"]+)['\"]", path.read_text())}
    named |= {
        f"css/{name}.css"
        for path in OURS
        for names in re.findall(r'"([a-z ]+)"\|sheets', path.read_text())
        for name in names.split()
    }
    for module in (STATIC / "js").glob("*.js"):
        named |= {
            f"js/{name}"
            for name in re.findall(r"from '\./([^']+)'|import '\./([^']+)'", module.read_text())
            for name in name
            if name
        }
    assert {name for name in named if not (STATIC / name).is_file()} == set()


def test_every_icon_that_is_used_is_drawn():
    drawn = set(re.findall(r'id="i-([a-z0-9-]+)"', (ROOT / "templates/components/icons.html").read_text()))
    used = {
        name
        for path in OURS
        for name in re.findall(r"{% icon ['\"]([a-z0-9-]+)['\"]|#i-([a-z0-9-]+)", path.read_text())
        for name in name
        if name
    }
    for source in [*(ROOT / "dashboard").rglob("*.py"), *(STATIC / "js").glob("*.js")]:
        used |= set(re.findall(r"#i-([a-z0-9-]+)", source.read_text()))
    from dashboard.presenters.states import STATES

    used |= {state.icon for state in STATES.values()}
    assert used <= drawn, used - drawn
