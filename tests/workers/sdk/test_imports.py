"""What may run on a GPU host beside an engine: these packages need msgspec, and torch only where ranks agree over gloo."""

import ast
import doctest
import importlib
import sys

import pytest

from tests.support.processes import ROOT

OURS = ("controlplane.domain", "controlplane.protocol", "workers.sdk", "workers.collective")
HEAVY = {"workers/collective/gloo.py": {"torch"}}
MODULES = sorted(path for package in ("sdk", "collective") for path in (ROOT / "workers" / package).glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_module_imports_what_a_base_installation_has(path):
    allowed = HEAVY.get(str(path.relative_to(ROOT)), set()) | {"msgspec"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or top in allowed or name.startswith(OURS), (
                f"{path.name} imports {name}"
            )
            assert top not in ("pickle", "marshal", "shelve"), "nothing received is unpickled"


@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "gloo.py"], ids=lambda path: path.stem)
def test_examples_in_docstrings_are_true(path):
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0
