"""`python -m demo.spoiling prefill …`: the prefill agent, which upon SIGUSR1 writes the number of another room beside a KV once.

That is what a mixed-up buffer of an engine does: everything arrives, and it is somebody else's. Its decode must find out.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from types import FrameType

from workers.agent.__main__ import main
from workers.transfer.metadata import MetadataSlots

log = logging.getLogger(__name__)


class Spoiled(MetadataSlots):
    """Metadata of a rank. Once `due` is set, all ranks give the room that comes next another number."""

    due = threading.Event()
    chosen = -1

    def set_room(self, slot: int, room: int) -> None:
        if Spoiled.due.is_set():
            Spoiled.due.clear()
            Spoiled.chosen = room
            log.warning("room %d gets the number of another one", room)
        super().set_room(slot, room + 1 if room == Spoiled.chosen else room)


def spoil(number: int, frame: FrameType | None) -> None:
    Spoiled.due.set()


if __name__ == "__main__":
    from workers.agent import groups

    groups.MetadataSlots = Spoiled  # type: ignore[misc]
    signal.signal(signal.SIGUSR1, spoil)
    sys.exit(main())
