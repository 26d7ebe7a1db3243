"""The API as the demo asks it: JSON or, while nobody answers, a sentence."""

from __future__ import annotations

from typing import Any

import httpx


class Away(Exception):
    """Nobody answers, or not with what was asked for. `status` is 0 when nobody does."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Api:
    def __init__(self, web: str, token: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=f"{web}/api/v1/", headers={"authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        )

    async def get(self, path: str) -> Any:
        """Raises Away."""
        return await self._ask("GET", path, None)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """Raises Away."""
        return await self._ask("POST", path, body)

    async def delete(self, path: str) -> None:
        await self._ask("DELETE", path, None)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as problem:
            raise Away(0, f"{method} {path}: {problem!r}") from None
        if answer.status_code >= 300:
            raise Away(answer.status_code, f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise Away(answer.status_code, f"{method} {path}: the answer is no JSON") from None

    async def close(self) -> None:
        await self._http.aclose()
