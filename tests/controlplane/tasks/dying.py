"""One look at the drains by a process that kills itself, as `kill -9` would, at the step that is named.

`python -m tests.controlplane.tasks.dying STEP NOW`
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

STEPS = ("before asking", "after asking", "after weighing", "facts written", "events written", "committed")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(work: Callable[..., Any]) -> Callable[..., Any]:
    def done(*arguments: Any, **named: Any) -> Any:
        work(*arguments, **named)
        die()

    return done


def main(step: str, now: float) -> None:
    import django

    django.setup()
    from controlplane.commands import noting, transaction, watching

    if step == "before asking":
        die()
    elif step == "after asking":
        watching._ask = dying_after(watching._ask)
    elif step == "after weighing":
        watching.evaluate = dying_after(watching.evaluate)
    elif step == "facts written":
        # The update of the row is done, the events are not, and nothing is committed.
        watching._progressed = dying_after(watching._progressed)
    elif step == "events written":
        transaction.append = dying_after(transaction.append)
        noting.append = dying_after(noting.append)
    elif step == "committed":
        watching.record = dying_after(watching.record)
    watching.check(now)
    # Nothing had changed, so nothing was written: it dies all the same.
    die()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
