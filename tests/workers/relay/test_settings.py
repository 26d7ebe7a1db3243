"""How a relay is started: each wrong word is a sentence, a taken port says what to do, and the documents name what there is."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes import clean_env
from tests.workers.relay.relays import Relay
from workers.relay import settings

ROOT = Path(__file__).resolve().parents[3]
NEEDED = ("--kv", "cp:8998", "--instance", "p", "--data", "/tmp/x")


def test_little_must_be_said():
    read = settings.read(NEEDED)
    assert (str(read.control_plane.kv), read.instance, read.port) == ("cp:8998", "p", 8998)
    assert read.listen == ("0.0.0.0", "::") and read.networks is None
    assert read.worker == f"relay/{socket.gethostname()[:64]}:8998", "the same over restarts"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (NEEDED[:4], "--data"),
        ((*NEEDED, "--instance", "two words"), "an instance name has"),
        ((*NEEDED, "--kv", ""), "is missing"),
        ((*NEEDED, "--port", "70000"), "--port must be between 0 and 65535"),
        ((*NEEDED, "--lease", "0"), "--lease must be between 1 and 600"),
        ((*NEEDED, "--networks", "10.0.0.1/8"), "networks are CIDRs"),
        ((*NEEDED, "--token-file", "/nowhere"), "--token-file cannot be read"),
        ((*NEEDED, "--token-file", "/dev/null"), "the token is not one"),
    ],
)
def test_what_is_wrong_is_said(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        settings.read(words)
    assert ended.value.code == 2 and sentence in capsys.readouterr().err


def started(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workers.agent", "relay", *words]
    return subprocess.run(command, cwd=ROOT, env=clean_env(), capture_output=True, text=True, timeout=60)


def test_who_comes_after_the_engine_is_told_to_come_before_it(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as engine:
        port = str(engine.getsockname()[1])
        done = started(*NEEDED[:4], "--data", str(tmp_path), "--listen", "127.0.0.1", "--port", port)
    assert done.returncode == 1 and f"127.0.0.1:{port} is taken: start the relay before the engine" in done.stderr


def test_it_listens_for_both_families_and_ends_well_when_it_is_told(tmp_path):
    relay = Relay(tmp_path, "127.0.0.1:1", "p")
    words = list(relay.words)
    del words[words.index("--listen") : words.index("--listen") + 2]
    relay.words = tuple(words)
    relay.start()
    for host in ("127.0.0.1", "::1"):
        client = relay.client(host=host)
        assert client.put(rank_ip=host).status == 200
        assert client.slot().json()["rank_ip"] == host
    ranks = relay.status()["launches"][0]["ranks"]
    assert [rank["process"] for rank in ranks] == [str(os.getpid())], "seen over IPv6 as well"
    assert relay.terminate() == 0


def test_a_directory_that_cannot_be_used_ends_it_with_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = started(*NEEDED[:4], "--data", str(tmp_path / "file"))
    assert done.returncode == 1 and "cannot be used (--data)" in done.stderr and "Traceback" not in done.stderr


def test_neither_torch_nor_aiohttp_nor_django_is_imported():
    script = (
        "import sys; sys.argv = ['agent', 'relay', '--help']\n"
        "from workers.agent.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "found = {'torch', 'aiohttp', 'django', 'httpx', 'zmq', 'numpy'} & sys.modules.keys()\n"
        "print('imported', sorted(found))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=clean_env(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "imported []", done.stderr


def test_the_document_names_every_option_and_no_other(capsys):
    with pytest.raises(SystemExit):
        settings.read(["--help"])
    there = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help", "--disaggregation-bootstrap-port"}
    rows = [line for line in (ROOT / "docs/relay.md").read_text().splitlines() if line.startswith("| `--")]
    told = {option for row in rows for option in re.findall(r"`(--[a-z][a-z-]+)", row.split("|")[1])}
    assert told == there


def test_the_unit_starts_what_there_is(tmp_path):
    unit = (ROOT / "deploy/pd-relay.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    (tmp_path / "token").write_text("pdcp_x")
    given = {"PD_KV": "cp:8998", "PD_INSTANCE": "p", "PD_PORT": "8998", "CREDENTIALS_DIRECTORY": str(tmp_path)}
    words = re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], line).split()
    assert words[1:4] == ["-m", "workers.agent", "relay"]
    assert settings.read(words[4:]).control_plane.headers()["x-pd-token"] == "pdcp_x"
