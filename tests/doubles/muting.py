"""Stands before a server on a Unix socket, and can go silent as a cut cable does: connections stay open, and nothing comes."""

from __future__ import annotations

import socket
import threading
from pathlib import Path


class Muting:
    """What is connected when it is muted stays so and hears nothing any more; who connects afterwards is served."""

    def __init__(self, path: Path, server: Path) -> None:
        self.path, self._server = path, server
        self._generation = 0
        self._open: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(64)
        threading.Thread(target=self._accept, name="muting", daemon=True).start()

    def mute(self) -> None:
        self._generation += 1

    def close(self) -> None:
        for one in (self._listening, *self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
            except OSError:
                return
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._relay, args=(one, other, self._generation), daemon=True).start()

    def _relay(self, one: socket.socket, other: socket.socket, generation: int) -> None:
        try:
            while said := one.recv(65_536):
                if generation != self._generation:
                    # Read, so that whoever speaks is not even held up; and told to nobody.
                    continue
                other.sendall(said)
            if generation == self._generation:
                other.shutdown(socket.SHUT_WR)
        except OSError:
            return
