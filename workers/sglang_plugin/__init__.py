"""The plugin for SGLang: a fleet that installs this package and sets PD_CONTROL_PLANE is known to the control plane.

SGLang calls `register` in every process of an engine (entry point group `sglang.srt.plugins`, srt/plugins/__init__.py).
Without PD_CONTROL_PLANE it does nothing and imports nothing.
"""

import os

VARIABLE = "PD_CONTROL_PLANE"


def register() -> None:
    """Entry point. Nothing that goes wrong here is raised: serving comes first."""
    if not os.environ.get(VARIABLE, "").strip():
        return
    from .plugin import start

    start()
