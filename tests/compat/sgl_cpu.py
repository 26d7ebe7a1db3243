"""Makes `import sglang.srt…` work on a machine without GPU. Import it before anything of SGLang.

`triton` and `torchvision` are served as stub modules of SGLang's own stub class, the one it uses on Macs.
Nothing else is replaced.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any


def _load_stub_tools() -> Any:
    found = importlib.util.find_spec("sglang")
    assert found is not None and found.origin is not None, "sglang is not installed"
    path = Path(found.origin).parent / "_platform_stubs.py"
    spec = importlib.util.spec_from_file_location("_sglang_platform_stubs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves every module below the packages in `packages` as a stub."""

    def __init__(self, tools: Any, *packages: str) -> None:
        self.tools, self.packages = tools, set(packages)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.split(".", 1)[0] in self.packages:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = self.tools._MockModule(spec.name)
        if spec.name == "triton":
            module.__version__ = "3.0.0"
            module.cdiv = self.tools._cdiv
            module.next_power_of_2 = self.tools._next_power_of_2
            module.Config = self.tools._Config
        elif spec.name == "triton.language":
            module.constexpr = Constexpr
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Constexpr:
    def __init__(self, value: Any = None) -> None:
        self.value = value


_finder = StubFinder(_load_stub_tools(), "triton")
sys.meta_path.insert(0, _finder)

# transformers must go on believing that torchvision is not installed: it caches its answer, and only then
# does the stub become visible.
import transformers.utils.import_utils as _transformers  # noqa: E402

assert not _transformers.is_torchvision_available()
_finder.packages.add("torchvision")
