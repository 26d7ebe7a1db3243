"""One round of retention by a process that kills itself, as `kill -9` would, at the step that is named.

`python -m tests.controlplane.tasks.dying_retention STEP NOW`
"""

import sys

from tests.controlplane.tasks.dying import die, dying_after

STEPS = ("some parts stored", "state stored", "states gone", "some events gone", "launch copied", "launch moved")


def main(step: str, now: float) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.db.models import QuerySet

    from controlplane.commands import archiving, compaction, trimming
    from controlplane.models import ArchivedLaunch, StoredPart

    settings.PDCP_KEEP_EVENTS_DAYS = 10
    compaction.CHUNK, compaction.PARTS_AT_ONCE = 3, 1
    create = QuerySet.bulk_create
    pause = trimming.time.sleep

    def dying_on(model: type) -> None:
        def bulk_create(self, *arguments, **named):
            made = create(self, *arguments, **named)
            if self.model is model:
                die()
            return made

        QuerySet.bulk_create = bulk_create

    def slept(seconds: float) -> None:
        pause(seconds)
        die()

    if step == "some parts stored":
        dying_on(StoredPart)
    elif step == "state stored":
        compaction.store_state = dying_after(compaction.store_state)
    elif step == "states gone":
        compaction._drop_states = dying_after(compaction._drop_states)
    elif step == "some events gone":
        trimming.time.sleep = slept
    elif step == "launch copied":
        # The copy is written, the launch is not deleted, and nothing is committed.
        dying_on(ArchivedLaunch)
    elif step == "launch moved":
        archiving._move = dying_after(archiving._move)
    if step.startswith("launch"):
        archiving.archive_ended(now=now)
    else:
        compaction.compact(now=now)
    die()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
