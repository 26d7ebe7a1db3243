"""Rules about the code as a whole: which way imports point, and the tools that read every line."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.processes import ROOT, clean_env

PACKAGES = [name for name in ("controlplane", "dashboard", "workers", "demo") if (ROOT / name).is_dir()]
LONGEST_MODULE_LINES = 300
# What gives a rule the time, a file, a peer, a thread or chance; the domain is told such things.
NOT_PURE = {
    "asyncio",
    "io",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "random",
    "secrets",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}


def run(*argv: str) -> None:
    bin_directory = Path(sys.executable).parent
    # mypy's Django plugin loads the settings.
    env = clean_env(PDCP_ENV_FILE="/dev/null", PDCP_DATA_DIR=str(Path(sys.prefix) / "var-of-tools"))
    done = subprocess.run([str(bin_directory / argv[0]), *argv[1:]], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def modules(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def imported_by(path: Path) -> set[str]:
    """Full names of what a module imports, wherever in the module it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            names.add(".".join([*above, *filter(None, [node.module])]))
    return names


def test_imports_point_one_way():
    run("lint-imports", "--no-cache")


def test_every_package_is_under_the_import_contracts():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(PACKAGES) == set(config["tool"]["importlinter"]["root_packages"])


def test_ruff_has_nothing_to_say():
    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")


@pytest.mark.timeout(300)
def test_mypy_has_nothing_to_say():
    run("mypy")


def test_the_domain_uses_the_standard_library_and_neither_clock_nor_files_nor_network():
    for path in modules("controlplane/domain"):
        for name in imported_by(path):
            top = name.split(".")[0]
            assert name.startswith("controlplane.domain") or top in sys.stdlib_module_names, (path, name)
            assert top not in NOT_PURE, (path, name)


def test_domain_and_protocol_can_be_imported_without_django():
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in modules("controlplane/domain", "controlplane/protocol")
    ]
    code = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "assert 'django' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_gpu_host_needs_neither_django_nor_torch_for_the_sdk():
    code = (
        "import sys, workers.sdk, workers.messaging, workers.transfer, workers.collective\n"
        "found = {'django', 'torch', 'numpy', 'mooncake', 'aiohttp'} & set(sys.modules)\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_package_itself_is_empty():
    assert (ROOT / "controlplane" / "__init__.py").read_text(encoding="utf-8") == ""


def test_no_module_is_too_long_to_have_one_job():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules(*PACKAGES)
        if "migrations" not in path.parts
    }
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_MODULE_LINES} == {}


def test_every_module_says_its_job_on_top():
    silent = [
        str(path.relative_to(ROOT))
        for path in modules(*PACKAGES)
        if "migrations" not in path.parts
        and (text := path.read_text(encoding="utf-8"))
        and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


def test_there_is_no_migration_to_be_made(tmp_path):
    env = clean_env(PDCP_ENV_FILE="/dev/null", PDCP_DATA_DIR=tmp_path)
    done = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
