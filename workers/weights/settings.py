"""What the command line of `python -m workers.weights` says, checked at once: each problem is a sentence with the option."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.sdk import ControlPlane, TokenFile, WorkerError, own_address
from workers.transfer.layout import Place as Shard

DTYPES = ("bfloat16", "float16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`mode`: seed or pull. `ranks`: world ranks that this process holds. `host`: the address that peers reach."""

    mode: str
    host: str
    plane: ControlPlane | None = None
    instance: str | None = None
    backend: str = "mooncake"
    tp: int = 1
    pp: int = 1
    ranks: tuple[int, ...] = (0,)
    module: str | None = None
    layers: int = 4
    hidden: int = 512
    dtype: str = "bfloat16"
    number: int = 0
    seeds: tuple[str, ...] = ()
    receiver: str = ""
    expect: str | None = None
    keep: Path | None = None
    timeout: float = 600.0
    slots: int = 1
    slot_seconds: float = 0.0
    as_json: bool = False

    def shard(self, rank: int) -> Shard:
        return Shard(tp_rank=rank % self.tp, tp_size=self.tp, pp_rank=rank // self.tp, pp_size=self.pp)


def read(words: Sequence[str] | None = None) -> Settings:
    """Exits with a usage sentence (2) when something is wrong."""
    parser = _parser()
    given = vars(parser.parse_args(words))
    try:
        file = given.pop("token_file")
        secret = TokenFile(file) if file is not None else None
        at, instance = given.pop("engine_info"), given.get("instance")
        plane = ControlPlane.at(at, engine=at, instance=instance, token=secret) if at is not None else None
        host = given.pop("host") or (own_address(plane.engine).host if plane is not None else "127.0.0.1")
        ranks = _ranks(given.pop("ranks"), given["tp"] * given["pp"])
        seeds = tuple(given.pop("seeds", ()))
        settings = Settings(**given, plane=plane, host=host, ranks=ranks, seeds=seeds)
    except OSError as problem:
        parser.error(f"--token-file cannot be read: {problem}")
    except (WorkerError, ValueError) as problem:
        parser.error(str(problem))
    if sentence := refuse(settings):
        parser.error(sentence)
    return settings


def refuse(settings: Settings) -> str | None:
    """Why these settings cannot be meant.

    >>> refuse(Settings(mode="seed", host="127.0.0.1"))
    '--engine-info and --instance are needed: a seed publishes there, under that name'
    """
    for name in ("tp", "pp", "layers", "hidden", "slots"):
        if getattr(settings, name) < 1:
            return f"--{name} must be at least 1"
    if not 0 < settings.timeout <= 86_400:
        return "--timeout must be between 0 and 86400 seconds"
    if not 0 <= settings.slot_seconds <= 3600:
        return "--slot-seconds must be between 0 and 3600"
    publishes = settings.mode == "seed" or settings.instance is not None
    if publishes and (settings.plane is None or settings.instance is None):
        return "--engine-info and --instance are needed: a seed publishes there, under that name"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.weights", description="Weights from process to process.")
    modes = parser.add_subparsers(dest="mode", required=True)
    seed = modes.add_parser("seed", help="hold weights, publish them, and serve until SIGTERM or Ctrl-C")
    pull = modes.add_parser("pull", help="pull weights from seeds, verified; with --instance, be a seed of them then")
    for mode in (seed, pull):
        mode.add_argument("--engine-info", metavar="HOST:PORT", help="the engine-info server of the control plane")
        mode.add_argument("--instance", help="the name under which this process publishes")
        mode.add_argument("--token-file", type=Path, help="holds the token of this worker")
        mode.add_argument(
            "--host", help="the address of this host that peers reach; without: the one that is used there"
        )
        mode.add_argument("--backend", default="mooncake", choices=("mooncake", "zmq"))
        mode.add_argument("--tp", type=int, default=1)
        mode.add_argument("--pp", type=int, default=1)
        mode.add_argument("--ranks", default="", metavar="0,1,…", help="world ranks of this process; without: all")
        mode.add_argument(
            "--module", metavar="PACKAGE.MODULE:FUNCTION", help="makes a rank's module; without: a sample"
        )
        mode.add_argument("--layers", type=int, default=4, help="of the sample")
        mode.add_argument("--hidden", type=int, default=512, help="of the sample")
        mode.add_argument("--dtype", default=DTYPES[0], choices=DTYPES, help="of the sample")
        mode.add_argument(
            "--timeout", type=float, default=600.0, help="seconds until a pull, or publishing, is given up"
        )
    seed.add_argument("--number", type=int, default=0, help="the sample's weights follow from it")
    pull.add_argument("--from", dest="seeds", action="append", required=True, metavar="INSTANCE|HOST:PORT")
    pull.add_argument(
        "--receiver", default="", help="a name of this replica: it decides which seed is asked first, and when"
    )
    pull.add_argument("--expect", metavar="CONTENT", help="take these weights only, as a seed said at its start")
    pull.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="hold the weights in files there: a killed pull goes on"
    )
    pull.add_argument("--slots", type=int, default=1, help="receivers begin at so many moments …")
    pull.add_argument("--slot-seconds", type=float, default=0.0, help="… within so many seconds")
    pull.add_argument("--json", dest="as_json", action="store_true", help="the outcome as JSON, one line a rank")
    return parser


def _ranks(text: str, size: int) -> tuple[int, ...]:
    """
    >>> _ranks("", 2), _ranks("3,1", 4)
    ((0, 1), (1, 3))
    """
    if not text:
        return tuple(range(size))
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 7 and int(part) < size for part in parts):
        raise ValueError(f"--ranks must be numbers from 0 to {size - 1} with commas between them, not {text[:60]!r}")
    return tuple(sorted({int(part) for part in parts}))
