"""Python 3.12 and 3.13: the server installs there, and every module of it can be imported."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import ROOT, clean_env

IMPORT_EVERYTHING = """
import django, importlib, pkgutil
django.setup()
import controlplane
for module in pkgutil.walk_packages(controlplane.__path__, "controlplane."):
    importlib.import_module(module.name)
from django.core.management import call_command
call_command("check")
"""


def find(version: str) -> str | None:
    kept = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_server_installs_and_imports(version, tmp_path):
    python = find(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    # A copy, for building leaves files beside the source.
    source = tmp_path / "source"
    for name in ("controlplane", "dashboard", "workers", "templates"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
    for name in ("pyproject.toml", "README.md", "requirements.txt"):
        shutil.copy(ROOT / name, source)
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    own = tmp_path / "venv" / "bin" / "python"
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", "requirements.txt", ".[server]"], cwd=source, check=True)
    env = clean_env(PDCP_DATA_DIR=tmp_path / "data", PDCP_ENV_FILE="/dev/null", PYTHONPATH=None)
    env["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
    # From elsewhere, so that what was installed is imported and not what lies here.
    done = subprocess.run([own, "-c", IMPORT_EVERYTHING], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
