"""A real Redis on a Unix socket, that can go and come back."""

from pathlib import Path

from controlplane.supervisor import embedded_redis
from tests.support.processes import Child, clean_env


class Redis:
    """`directory` must be short: a Unix socket's path may have 107 characters."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "r.sock"
        self._directory = directory
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    @property
    def pid(self) -> int:
        assert self._child is not None, "not started yet"
        return self._child.pid

    def start(self) -> "Redis":
        binary = str(embedded_redis.find_binary())
        argv = [binary, "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self._directory)]
        self._child = Child(argv, env=clean_env(), log=self._directory / "log")
        self._child.wait_for_line("(?i)ready to accept connections", timeout=60)
        return self

    def kill9(self) -> None:
        if self._child is not None:
            self._child.kill9()
            self.socket.unlink(missing_ok=True)
