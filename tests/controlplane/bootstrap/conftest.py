"""Fixtures of this directory."""

from tests.controlplane.commands.on_backend import on_backend

__all__ = ["on_backend"]
