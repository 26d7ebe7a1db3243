"""What an agent is told on its command line, checked at once: each problem is a sentence that names the option."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.sdk import TokenFile, WorkerError
from workers.sdk.tokens import Token

MODES = ("prefill", "decode")
METHODS = ("follow_bootstrap_room", "round_robin")
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`host` is the address that peers reach; `kv` the KV bootstrap server, `api` the control plane's API, if any."""

    mode: str
    host: str = "127.0.0.1"
    port: int = 0
    kv: str | None = None
    api: str | None = None
    instance: str | None = None
    token: Token | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    backend: str = "zmq"
    page_size: int = 4
    pages: int = 256
    dtype: str = "float32"
    kv_cache_dtype: str | None = None
    """What it tells the other side, which must tell the same; None: `dtype`. SGLang says auto for that of its model."""
    seed: int = 0
    load_balance_method: str = "follow_bootstrap_room"
    timeout: float = 30.0
    checksums: bool = True
    launch_token: str | None = None
    """Of this start; None: that of this process (PD_LAUNCH_TOKEN)."""

    @property
    def told_dtype(self) -> str:
        return self.kv_cache_dtype or self.dtype

    @property
    def ranks(self) -> int:
        return self.tp * self.pp * self.dp


def read(words: Sequence[str] | None = None) -> Settings:
    """Exits with a usage sentence (2) when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m workers.agent", description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--host", default="127.0.0.1", help="the address of this host that peers reach")
    parser.add_argument("--port", type=int, default=0, help="HTTP; 0: any that is free, and printed")
    parser.add_argument("--kv", metavar="HOST:PORT", help="KV bootstrap server (prefill: needed)")
    parser.add_argument("--api", metavar="URL", help="the control plane's API: reports, changes")
    parser.add_argument("--instance", help="the name of this instance there")
    parser.add_argument("--token-file", type=Path, help="holds the token of this worker")
    for axis in ("tp", "pp", "dp"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    parser.add_argument("--backend", default="zmq", choices=("mooncake", "zmq"))
    parser.add_argument("--page-size", type=int, default=4)
    parser.add_argument("--pages", type=int, default=256, help="of each rank")
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="of keys and values")
    parser.add_argument("--kv-cache-dtype", help="what the other side is told (default: --dtype; SGLang tells auto)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights; the same on both sides")
    parser.add_argument("--load-balance-method", default=METHODS[0], choices=METHODS)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for a request's KV to be handed over")
    parser.add_argument("--no-checksums", dest="checksums", action="store_false")
    given = vars(parser.parse_args(words))
    file = given.pop("token_file")
    try:
        token = TokenFile(file) if file is not None else None
    except (OSError, WorkerError) as problem:
        parser.error(f"--token-file cannot be read: {problem}")
    settings = Settings(**given, token=token)
    if sentence := refuse(settings):
        parser.error(sentence)
    return settings


def refuse(settings: Settings) -> str | None:
    """Why these settings cannot be meant.

    >>> refuse(Settings(mode="prefill")), refuse(Settings(mode="decode", tp=0))
    ('--kv is needed: a prefill registers there', '--tp must be at least 1')
    """
    for name in ("tp", "pp", "dp", "pages", "page_size"):
        if getattr(settings, name) < 1:
            return f"--{name.replace('_', '-')} must be at least 1"
    if not 0 < settings.timeout <= 3600:
        return "--timeout must be between 0 and 3600 seconds"
    if not 0 <= settings.port <= 65535:
        return "--port must be between 0 and 65535"
    if settings.mode == "prefill" and settings.kv is None:
        return "--kv is needed: a prefill registers there"
    return None
