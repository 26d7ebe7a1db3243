"""What needs no seed: steps, manifests, digests, lines; and what these modules import."""

import ast
import doctest
import importlib
import os
import random
import subprocess
import sys

import pytest
import torch

from tests.support.processes import ROOT
from workers.transfer.memory import Segment
from workers.weights import Manifest, Origin, Promise, Shard, Unfit
from workers.weights.digest import ROW, digest_at, digest_of
from workers.weights.manifest import BOOK, MAX_CHAIN, book_in, entries, longer, read
from workers.weights.matching import Held
from workers.weights.progress import Meter
from workers.weights.steps import steps

MODULES = sorted((ROOT / "workers" / "weights").glob("*.py"))
TORCH = {"checking", "digest", "holding", "running", "sample", "seed", "pull"}
"""Those that need torch, themselves or through one another."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_in_docstrings_are_true_and_nothing_is_unpickled(path):
    if path.stem != "__main__":
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        assert doctest.testmod(importlib.import_module(name)).failed == 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        assert not {"pickle", "marshal", "shelve", "numpy", "mooncake"} & set(names)


def test_the_package_and_its_words_need_no_torch():
    plain = [f"workers.weights.{path.stem}" for path in MODULES if path.stem not in TORCH | {"__main__", "__init__"}]
    code = f"import sys, {', '.join(plain)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


@pytest.mark.parametrize("seed", range(20))
def test_steps_fetch_every_byte_once_and_say_that_a_tensor_is_whole_when_it_is(seed):
    dice = random.Random(seed)
    held, told, at = [], {}, 1000
    for n in range(dice.randrange(1, 40)):
        count = dice.choice([0, 1, 7, 64, 300])
        held.append(Held(f"t{n}", at, (count,), "int16", count, 2))
        told[f"t{n}"] = (10**6 + at + dice.choice([0, 0, 64 * n]), count, 2)
        at += 2 * count + dice.choice([0, 0, 30])
    copied: dict[int, int] = {}
    whole = []
    for step in steps(dice.sample(held, len(held)), told, most_bytes=dice.choice([1, 50, 10_000])):
        assert step.bytes <= 10_000
        for local, remote, length in step.blocks:
            for offset in range(length):
                assert local + offset not in copied
                copied[local + offset] = remote + offset
        for each in step.whole:
            remote = told[each.name][0]
            assert all(copied[each.address + n] == remote + n for n in range(each.bytes))
        whole += step.whole
    assert sorted(each.name for each in whole) == sorted(told) and len(copied) == sum(each.bytes for each in held)


@pytest.mark.parametrize("length", [0, 1, 8, ROW - 1, ROW, ROW + 1, 64 * ROW, 65 * ROW + 13, 200 * ROW])
def test_a_digest_changes_with_any_bit_and_with_the_length(length):
    raw = bytearray(random.Random(length).randbytes(length))
    segment = Segment(length + 9)
    segment.view(0, length)[:] = raw
    first = digest_at(segment.address, length)
    assert len(first) == 32 and digest_of(torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0)) == first
    assert digest_at(segment.address, length + 1) != first
    dice = random.Random(1)
    for _ in range(40 if length else 0):
        bit = dice.randrange(8 * length)
        segment.view()[bit // 8] ^= 1 << bit % 8
        assert digest_at(segment.address, length) != first
        segment.view()[bit // 8] ^= 1 << bit % 8
    # Where memory begins does not matter.
    segment.view(1, length)[:] = raw
    assert digest_at(segment.address + 1, length) == first


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8])
def test_a_digest_changes_with_what_sums_like_to_lose(dtype):
    tensor = torch.randint(1, 100, (8 * ROW,), generator=torch.Generator().manual_seed(1)).to(dtype)
    swapped = tensor.view(8, -1)[[1, 0, *range(2, 8)]].contiguous()
    highest = tensor.clone()
    # Two elements whose highest bits fall on the highest bits of two words in one row.
    place = 8 // tensor.element_size()
    for at in (place - 1, 3 * place - 1):
        highest[at] = -highest[at] if dtype.is_floating_point else highest[at] ^ -128
    others = (-tensor, tensor.flip(0), tensor.roll(1), tensor.roll(ROW), swapped, highest, torch.zeros_like(tensor))
    assert len({digest_of(each) for each in (tensor, *others)}) == 1 + len(others)


def test_row_sums_are_sums_modulo_two_to_the_64():
    from workers.weights.digest import _HALVES, _WORDS, _row_sums

    rows = torch.frombuffer(bytearray(os.urandom(2 * ROW)), dtype=torch.int64).view(2, -1)
    got = torch.frombuffer(bytearray(_row_sums(rows)), dtype=torch.int64).view(2, 2)
    for place in range(2):
        words, halves = rows[place].tolist(), (rows[place] >> 32).tolist()
        for kind, (numbers, factors) in enumerate(((words, _WORDS), (halves, _HALVES))):
            exact = sum(a * b for a, b in zip(numbers, factors.tolist(), strict=True)) % 2**64
            assert got[kind, place].item() % 2**64 == exact


def test_a_manifest_is_bound_to_its_publication_and_names_its_content():
    one = Manifest(0, 1, 0, 1, {"a": Promise("int8", (4,), "00"), "b": Promise("int8", (2, 2), "11")})
    other = Manifest(0, 1, 0, 1, dict(reversed(one.tensors.items())), (Origin("seed-a", 0, "h:1"),))
    assert one.content == other.content
    assert one.content != Manifest(0, 2, 0, 1, one.tensors).content
    import msgspec

    raw = msgspec.json.encode(other)
    told = entries(other, raw, 4096)
    total, address, length = book_in(told)
    assert (address, length) == (4096, len(raw)) and read(raw, total) == other
    assert read(raw[:-1] + b" ", total) is None
    assert [name for name in told if "from" in name] == ["pd-weights/1/from/1/seed-a/0"]
    assert book_in({"w": (1, 2, 3)}) is None
    with pytest.raises(Unfit, match="points to 2 manifests"):
        book_in({BOOK + "a": (1, 2, 1), BOOK + "b": (1, 2, 1)})
    with pytest.raises(Unfit, match="its manifest has 0 bytes"):
        book_in({BOOK + "a": (1, 0, 1)})
    with pytest.raises(Unfit, match="cannot be read"):
        read(b"{}", __import__("hashlib").sha256(b"{}").hexdigest())
    assert len(longer(Origin("x", 0, "h:2"), (Origin("y", 0, "h:1"),) * MAX_CHAIN)) == MAX_CHAIN
    assert Shard(tp_size=2).tp_size == 2


def test_a_rate_is_of_the_last_seconds():
    meter = Meter()
    for second in range(10):
        meter.rate(100 * second, float(second))
    assert meter.rate(900, 60.0) is None, "nothing came for a minute"
