"""`python -m tests.soak.readers PORT SECONDS`: 64 loaders that read large dictionaries again and again."""

import asyncio
import sys
import time

from tests.crash.wire import Client
from tests.soak.measure import shown

READERS = 64


async def read_for(port: int, seconds: float) -> str:
    taken: list[float] = []
    size = 0
    end = time.monotonic() + seconds

    async def reader(number: int) -> None:
        nonlocal size
        async with Client(port, timeout=60) as client:
            while time.monotonic() < end:
                began = time.monotonic()
                path = f"/get_transfer_engine_info?rank={number % 4}"
                answer = await client.ask("GET", path, instance="default")
                taken.append(time.monotonic() - began)
                if answer.status != 200:
                    raise SystemExit(f"{path} was answered {answer}")
                size += len(answer.body)

    await asyncio.gather(*(reader(number) for number in range(READERS)))
    return f"{len(taken)} dictionaries, {size / 1e6:,.0f} MB; {shown(taken)}"


if __name__ == "__main__":
    print(asyncio.run(read_for(int(sys.argv[1]), float(sys.argv[2]))))
