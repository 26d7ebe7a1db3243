"""`manage.py simulate` as a process: exit codes, JSON lines, a terminal, signals."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import pty
import signal
import sys

import pytest

from tests.controlplane.simulation.directory import Directory

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Makes standard input the controlling terminal of a new session, then becomes the rest of the command line.
IN_FRONT = (
    "-c",
    (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    ),
)


@pytest.fixture
def simulate(tmp_path):
    environment = {
        **os.environ,
        "PDCP_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "sqlite:////nowhere/at/all.db",
    }

    async def start(
        *options: str, before: tuple[str, ...] = (), stdin: int = asyncio.subprocess.DEVNULL
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *before,
            "manage.py",
            "simulate",
            *options,
            cwd=ROOT,
            env=environment,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    return start


async def lines_until(process: asyncio.subprocess.Process, what: str) -> list[dict]:
    """The JSON lines up to and with the first that says `what`."""
    assert process.stdout
    told: list[dict] = []
    async with asyncio.timeout(60):
        while not told or told[-1]["what"] != what:
            line = await process.stdout.readline()
            assert line, f"ended before it said {what!r}: {told}"
            told.append(json.loads(line))
    return told


async def test_once_registers_waits_for_ready_and_exits_with_0(simulate):
    async with Directory() as directory:
        process = await simulate("--dp", "2", "--tp", "2", "--url", directory.url, "--once", "--json")
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err
        assert [json.loads(line)["what"] for line in out.splitlines()][-1] == "ready"
        assert len(directory.rows) == 4


async def test_once_exits_with_1_when_a_rank_is_missing_and_says_what_the_directory_said(simulate):
    async with Directory() as directory:
        process = await simulate(
            "--dp", "2", "--tp", "2", "--skip", "dp1,tp1", "--url", directory.url, "--once", "--wait", "0.1"
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 1
        assert b"(3 workers registered)" in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--dp", "2", "--system-dp", "2"), b"cannot both be above 1"),
        (("--skip", "everything"), b"does not name ranks"),
        (("--host", "0.0.0.0"), b"unspecified"),
        (("--tp", "many"), b"invalid int value"),
        (("--host", "203.0.113.7"), b"--no-listen"),
    ],
)
async def test_wrong_usage_exits_with_2_and_a_sentence(simulate, options, sentence):
    process = await simulate(*options)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert sentence in err and b"Traceback" not in err


async def test_a_running_simulation_keeps_its_ranks_until_it_is_told_to_stop(simulate):
    async with Directory() as directory:
        process = await simulate("--url", directory.url, "--json")
        port = (await lines_until(process, "ready"))[0]["port"]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        process.send_signal(signal.SIGTERM)
        await lines_until(process, "stopped")
        assert await asyncio.wait_for(process.wait(), 30) == 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_ctrl_c_stops_without_a_traceback(simulate):
    async with Directory() as directory:
        process = await simulate("--url", directory.url, "--json", "--rooms-per-second", "50")
        await lines_until(process, "ready")
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0 and err == b""


async def test_commands_are_read_from_a_terminal(simulate):
    """A pseudo-terminal of its own, so that the process is in front of it."""
    async with Directory() as directory:
        ours, theirs = pty.openpty()
        process = await simulate("--tp", "2", "--url", directory.url, "--json", before=IN_FRONT, stdin=theirs)
        os.close(theirs)
        await lines_until(process, "console")
        first = {row["rank_port"] for row in directory.rows.values()}
        os.write(ours, b"kill tp1\n")
        assert (await lines_until(process, "kill"))[-1]["ranks"] == 1
        os.write(ours, b"explode\n")
        assert "is not a command" in (await lines_until(process, "refused"))[-1]["text"]
        os.write(ours, b"restart\n")
        await lines_until(process, "ready")
        assert not first & {row["rank_port"] for row in directory.rows.values()}
        os.write(ours, b"quit\n")
        await lines_until(process, "stopped")
        assert await asyncio.wait_for(process.wait(), 30) == 0
        os.close(ours)
