"""An operator's script: a token, JSON, and the patience of somebody who knows that things restart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from tests.support.processes import manage

GENEROUS_SECONDS = 60.0


def make_token(env: Mapping[str, str], name: str, *verbs: str) -> str:
    """A new token that may do these, as the command line makes it."""
    may = [word for verb in verbs for word in ("--may", verb)]
    made = manage("tokens", "make", name, *may, "--json", env=env)
    assert made.returncode == 0, made.stderr
    return str(json.loads(made.stdout)["token"])


class Operator:
    """Speaks to the API at `url`; actions are about one instance."""

    def __init__(self, url: str, token: str, instance: str) -> None:
        self.instance = instance
        self._http = httpx.Client(
            base_url=f"{url}/api/v1/", headers={"authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        )

    def ask(self, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        answer = self._http.request(method, path, **more)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def get(self, path: str, **more: Any) -> Any:
        return self.ask("GET", path, **more)

    def act(self, action: str, *, status: int = 200, **body: Any) -> Any:
        said = {"reason": "because a test asks", **body}
        return self.ask("POST", f"instances/{self.instance}/{action}", status=status, json=said)

    def ended(self, operation: str) -> Any:
        """The operation, once it has ended."""
        return self.until(f"operations/{operation}", lambda said: said["ended"])

    def until(self, path: str, true: Callable[[Any], bool]) -> Any:
        """What is said there, once it is so; whoever is restarting meanwhile is asked again."""
        end = time.monotonic() + GENEROUS_SECONDS
        said: Any = None
        while True:
            try:
                answer = self._http.get(path)
                said = answer.json() if answer.status_code == 200 else answer.text
                if answer.status_code == 200 and true(said):
                    return said
                assert answer.status_code in (200, 503), f"{path}: {answer.status_code} {said}"
            except httpx.TransportError as problem:
                said = repr(problem)
            assert time.monotonic() < end, f"{path} stayed {said}"
            time.sleep(0.1)
