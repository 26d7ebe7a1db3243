"""A process that holds SGLang: it runs named scenarios and answers with JSON, one line each.

Importing SGLang costs seconds and half a gigabyte, and it does not end by itself: so it lives in a process of
its own, once for all tests. Commands come in on stdin:

    {"open": "registration", "with": {…}}   start a scenario; the answer is what it yields first
    {"go": null}                            let it go on to its next yield
    {"serve": [kv_port, engine_port]}       start SGLang's own servers
    {"close": kv_port}                      stop them
"""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

Answer = dict[str, Any]


class Driver:
    def __init__(self) -> None:
        from tests.compat import harness
        from tests.compat.scenarios import SCENARIOS

        self._harness, self._scenarios = harness, SCENARIOS
        self._servers: dict[int, Any] = {}
        self._open: Iterator[Any] = iter(())

    def answer(self, command: dict[str, Any]) -> Answer:
        match command:
            case {"open": str(name), "with": dict(arguments)}:
                self._harness.let_go()
                self._open = self._scenarios[name](**arguments)
                return {"said": next(self._open)}
            case {"go": _}:
                return {"said": next(self._open)}
            case {"serve": [int(kv_port), int(engine_port)]}:
                self._servers[kv_port] = self._harness.RealServers(kv_port, engine_port)
                return {"said": None}
            case {"close": int(kv_port)}:
                self._servers.pop(kv_port).close()
                return {"said": None}
        raise ValueError(f"unknown command {command}")


def main() -> None:
    # Whatever SGLang prints goes to the log; only answers go to the pipe.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    driver = Driver()
    answers.write("READY\n")
    for line in sys.stdin:
        try:
            answer = driver.answer(json.loads(line))
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        answers.write("ANSWER " + json.dumps(answer) + "\n")
    # SGLang's ZeroMQ contexts would wait for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
