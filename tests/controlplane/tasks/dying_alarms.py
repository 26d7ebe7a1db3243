"""One round of alarms, and one of sending, by a process that kills itself, as `kill -9` would, at the step that is named.

`python -m tests.controlplane.tasks.dying_alarms STEP NOW`
"""

import sys

from tests.controlplane.tasks.dying import die, dying_after

DECIDING = ("before deciding", "rows written", "messages written", "events written", "committed")
SENDING = ("claimed", "taken", "settled")


def main(step: str, now: float) -> None:
    import django

    django.setup()
    from controlplane.commands import alarm_notices, alarm_posting, alarm_rows, alarms, transaction

    places = {
        "before deciding": (alarms, "snapshot"),
        "rows written": (alarm_rows, "write"),
        "messages written": (alarm_notices, "write"),
        "events written": (transaction, "append"),
        "committed": (alarms, "record"),
        "claimed": (alarm_posting, "_claim"),
        "taken": (alarm_posting, "post"),
        "settled": (alarm_posting, "_settle"),
    }
    module, name = places[step]
    setattr(module, name, dying_after(getattr(module, name)))
    if step in DECIDING:
        alarms.watch(now)
    else:
        alarm_posting.deliver(now)
    # There was nothing to do: it dies all the same.
    die()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
