"""A token that is rotated while a worker runs: the new one is used, and what is no token never is."""

import logging

import pytest

from tests.workers.sdk.server import Said
from workers.sdk import AsyncClient, BadAddress, ControlPlane, Question, TokenFile, WorkerError, read_decode
from workers.sdk.tokens import LOOK_SECONDS


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_file_that_changed_is_read_again_and_what_it_holds_meanwhile_counts_only_when_it_is_a_token(
    tmp_path, clock, caplog
):
    caplog.set_level(logging.INFO, "workers.sdk.tokens")
    file = tmp_path / "token"
    file.write_text("first\n")
    token = TokenFile(file, clock=clock)
    file.write_text("the second\n")
    assert token.current() == "first", "it is not looked at all the time"
    for text, expected in (("the second\n", "the second"), ("", "the second"), ("two\nlines", "the second")):
        file.write_text(text)
        clock.now += LOOK_SECONDS
        assert token.current() == expected
    file.unlink()
    clock.now += LOOK_SECONDS
    assert token.current() == "the second"
    file.write_bytes(b"\xff\xfe")
    clock.now += LOOK_SECONDS
    assert token.current() == "the second"
    said = [record.getMessage() for record in caplog.records]
    assert said.count(f"the token in {file} was changed, and is used from now on") == 1
    assert len(said) == 4 and "second" not in "".join(said).replace(str(file), ""), "tokens are never logged"


def test_a_link_that_is_turned_is_a_change_as_with_secrets_that_are_mounted(tmp_path, clock):
    for name in ("v1", "v2"):
        (tmp_path / name).write_text(f"token-{name}")
    link, fresh = tmp_path / "token", tmp_path / "fresh"
    link.symlink_to("v1")
    token = TokenFile(link, clock=clock)
    fresh.symlink_to("v2")
    fresh.replace(link)
    clock.now += LOOK_SECONDS
    assert token.current() == "token-v2"


@pytest.mark.parametrize("content", [b"", b"  \n", b"a\nb", "schlüssel".encode(), b"\xff", b"x" * 501])
def test_a_file_without_a_token_is_refused_at_once(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(BadAddress, match="token"):
        TokenFile(file)
    with pytest.raises(OSError, match="No such file"):
        TokenFile(tmp_path / "none")


async def test_a_client_sends_the_token_that_its_file_holds_just_now(serve, tmp_path, clock):
    server = serve(lambda heard: Said(401, b"no"))
    file = tmp_path / "token"
    file.write_text("before")
    plane = ControlPlane.at(str(server.place), token=TokenFile(file, clock=clock))
    assert "before" not in repr(plane)
    async with AsyncClient(plane, token="launch") as client:
        for expected in ("before", "after"):
            file.write_text(expected)
            clock.now += LOOK_SECONDS
            with pytest.raises(WorkerError, match="401"):
                await client.resolve(Question(read_decode({"tp_size": 1, "is_mla": False})))
            assert server.heard[-1].headers["x-pd-token"] == expected
