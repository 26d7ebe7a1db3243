"""Pins, extras, and that the settings, their example and the README speak of the same variables."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.processes import ROOT, clean_env

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The build for hosts with CUDA cannot be installed beside the one for hosts without.
INSTALLED_EXTRAS = [extra for extra in PROJECT["optional-dependencies"] if extra != "workers"]


def pins(*files: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in files:
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, version = line.split("==")
                found[canonicalize_name(name)] = version
    return found


def closure(requirements: list[str]) -> set[str]:
    """Everything that comes with these requirements on this machine, extras included."""
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in {"", *requirement.extras}:
            step = (canonicalize_name(requirement.name), wanted)
            if step not in seen:
                seen.add(step)
                needs = importlib.metadata.requires(requirement.name) or []
                waiting += [(Requirement(text), wanted) for text in needs]
    return {name for name, _ in seen}


def test_every_line_is_one_exact_version_and_names_no_place_on_a_disk():
    for file in ("requirements.txt", "tests/compat/requirements.txt"):
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            assert not line or line.startswith("#") or re.fullmatch(r"[\w.-]+==\d[\w.]*", line), (file, line)


def test_everything_that_the_extras_bring_is_pinned_and_installed_as_pinned():
    wanted = list(PROJECT["dependencies"])
    for extra in INSTALLED_EXTRAS:
        wanted += PROJECT["optional-dependencies"][extra]
    pinned = pins("requirements.txt")
    needed = closure(wanted)
    assert needed - set(pinned) == set()
    assert set(pinned) - needed == set(), "pinned, but nothing needs it on this machine"
    for name, version in pins("requirements.txt", "tests/compat/requirements.txt").items():
        # torch's CPU build calls itself 2.13.0+cpu.
        assert importlib.metadata.version(name).split("+")[0] == version, name


def test_no_pin_contradicts_the_range_it_comes_from():
    pinned = pins("requirements.txt")
    for texts in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]:
        for requirement in map(Requirement, texts):
            name = canonicalize_name(requirement.name)
            if name != "mooncake-transfer-engine":
                assert requirement.specifier.contains(pinned[name]), requirement


def test_a_gpu_host_installs_no_django_and_a_server_installs_no_torch():
    assert "django" not in closure(PROJECT["dependencies"])
    assert "torch" not in closure(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["server"])


def test_settings_example_and_readme_name_the_same_variables(tmp_path):
    code = "import controlplane.settings; from controlplane import env; print(*env.known)"
    known = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=clean_env(PDCP_DATA_DIR=tmp_path, PDCP_ENV_FILE="/dev/null", SECRET_KEY=None),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    read = set(known.stdout.split()) - {"PDCP_ENV_FILE"}
    example = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = {
        name
        for row in readme.split("## Environment")[1].splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([A-Z_]+)`", row.split("|")[1])
    }
    assert example == read
    assert table == read
