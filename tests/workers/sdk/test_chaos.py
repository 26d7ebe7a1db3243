"""Whatever a server says, every call ends within its bound, with an answer or an error of ours; seeded, so that it repeats."""

import asyncio
import random
import time

import pytest

from tests.workers.sdk.directory import Directory
from tests.workers.sdk.server import HANG, RESET, Said, Server, say
from tests.workers.sdk.test_resolver import SAID, fill
from workers.sdk import AsyncClient, ControlPlane, Question, WorkerError, read_decode
from workers.sdk.exchange import Ask
from workers.sdk.wire import Wire

WITHIN = 0.5
# So much slower than an idle one may this machine be: measuring it takes too long to do it each time.
BUSY = 8.0
GOOD = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
)


def mutated(dice: random.Random) -> bytes:
    raw = bytearray(dice.choice(GOOD))
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(raw) + 1)
        match dice.randrange(4):
            case 0:
                raw[at:at] = dice.randbytes(dice.randrange(1, 5))
            case 1:
                del raw[at : at + dice.randrange(1, 9)]
            case 2:
                raw[at:at] = dice.choice([b"\r\n", b"\r\n\r\n", b": ", b"\0", b"9" * 20, b"ffffffff\r\n"])
            case 3:
                del raw[at:]
    return bytes(raw)


async def broken_answers(serve, seed: int, rounds: int) -> None:
    dice = random.Random(seed)
    server = serve(lambda heard: mutated(dice))
    wire = Wire()
    ended = 0
    for number in range(rounds):
        began = time.monotonic()
        try:
            answer = await wire.ask(server.place, Ask("GET", f"/{number}", most=1000), within=WITHIN)
            assert 200 <= answer.status < 600
            ended += 1
        except WorkerError as problem:
            assert str(server.place) in problem.sentence, (seed, number)
        assert (time.monotonic() - began) / BUSY < 2 * WITHIN, (seed, number)
    assert ended > rounds / 10
    await wire.aclose()


async def worker_s_calls(serve, seed: int, rounds: int) -> None:
    """A client goes on while its server hangs, breaks off, refuses and forgets; in the end all is as it should be."""
    dice = random.Random(seed)
    directory = Directory()
    fill(directory)
    bad = [HANG, RESET, Said(503, b"not now"), Said(500, b"oops"), Said(200, b"{"), say([1]), Said(cut=20)]
    trouble = [0.5]

    def answer(heard):
        return dice.choice(bad) if dice.random() < trouble[0] else directory.answer(heard)

    server: Server = serve(answer)
    question = Question(read_decode(SAID))
    async with AsyncClient(ControlPlane(server.place, server.place), token="t", max_age=0.0) as client:
        for number in range(rounds):
            room = client.mint.room()
            calls = (
                client.resolve(question, within=WITHIN),
                client.bind(room, 0, within=WITHIN),
                client.find_rooms([room], within=WITHIN),
                client.rooms.look([room], within=WITHIN),
            )
            began = time.monotonic()
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert (time.monotonic() - began) / BUSY < 2 * WITHIN, (seed, number)
            assert all(isinstance(one, (WorkerError, dict)) or not isinstance(one, BaseException) for one in ended), (
                ended
            )
            if dice.random() < 0.1:
                directory.restart()
                fill(directory)
        trouble[0] = 0.0
        directory.restart()
        fill(directory, first_port=45000)
        room = client.mint.room()
        await client.bind(room, 1, within=20)
        assert await client.find_rooms([room], within=20) == {room: 1}
        end = time.monotonic() + 30
        while [one.port for one in (await client.until_ready(question, within=20)).targets(0)] != [45000, 45001]:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)


async def test_bytes_that_are_nearly_http_end_as_an_answer_or_an_error_of_ours(serve):
    await broken_answers(serve, seed=1, rounds=120)


async def test_a_client_survives_a_server_that_fails_half_of_the_time(serve):
    await worker_s_calls(serve, seed=2, rounds=10)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
async def test_much_more_of_both(serve, seed):
    await broken_answers(serve, seed, rounds=2000)
    await worker_s_calls(serve, seed, rounds=200)
