"""What must be there before the first process starts: tables, an account, tokens, instances; and which libraries work."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .plan import Plan

CREDENTIALS_SECONDS = 120.0
WORKER = ("register", "resolve", "read", "report", "engine-info")
GATEWAY_VERBS = ("read", "operate", "gateway")


class Failed(Exception):
    """The demo could not start: a sentence."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """`worker` and `gateway` are tokens; `weights`: what moves weights here."""

    password: str = field(repr=False)
    worker: str = field(repr=False)
    gateway: str = field(repr=False)
    weights: str


async def prepare(plan: Plan, env: dict[str, str], weights: str) -> Prepared:
    """Tables, tokens and instances, and what moves the weights here. Raises Failed."""
    password = secrets.token_urlsafe(9)
    asked = {
        "password": password,
        "tokens": {"workers": WORKER, "gateway": GATEWAY_VERBS},
        "instances": plan.instances(),
    }
    said, found = await asyncio.gather(
        _tool(env, "-m", "demo.credentials", said=json.dumps(asked)), _what_moves_weights(weights, env)
    )
    code, out, err = said
    if code:
        raise Failed(f"the control plane could not be prepared (exit {code}).\n{err[-3000:]}")
    tokens = json.loads(out.splitlines()[-1])["tokens"]
    return Prepared(password, tokens["workers"], tokens["gateway"], found)


async def _what_moves_weights(wanted: str, env: dict[str, str]) -> str:
    """Mooncake where its library and what that needs of the system are there, else what works everywhere."""
    if wanted != "auto":
        return wanted
    code, _, _ = await _tool(env, "-c", "import mooncake.engine")
    return "zmq" if code else "mooncake"


async def _tool(env: dict[str, str], *words: str, said: str = "") -> tuple[int, str, str]:
    """A short run of Python: exit code, stdout, stderr. It is killed when nobody waits for it any more."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=env["PYTHONPATH"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(said.encode()), CREDENTIALS_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")


def write_secret(path: Path, text: str) -> None:
    """A file that its owner alone can read."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
