"""What a rank tells of its weights is told to the control plane too, until it has taken it.

SGLang tells its engine-info server once (srt/model_executor/model_runner_components/remote_instance_weight_transporter.py,
`_register_to_engine_info_bootstrap`), before the rank registers for KV and also in engines that do no PD.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence

from workers.sdk import Client, NotAllowed, TooLarge, WorkerError
from workers.sdk.backoff import Backoff

log = logging.getLogger(__name__)

EACH_SECONDS = 60.0
HOPELESS_SECONDS = 300.0


def publish_for_ever(
    client: Client, rank: int, tp_rank: int, session: str, weights: Mapping[str, Sequence[int]]
) -> threading.Thread:
    """In a thread of its own: a large dictionary takes seconds, and the control plane may be away for hours."""
    tensors = {name: (int(at), int(count), int(size)) for name, (at, count, size) in weights.items()}
    thread = threading.Thread(
        target=_publish, args=(client, rank, tp_rank, session, tensors), name="pd-plugin-weights", daemon=True
    )
    thread.start()
    return thread


def _publish(
    client: Client, rank: int, tp_rank: int, session: str, tensors: Mapping[str, tuple[int, int, int]]
) -> None:
    told = ""
    for pause in Backoff(1.0, 30.0).pauses(random.Random()):
        try:
            client.publish_weights(rank, session, tensors, tp_rank=tp_rank, within=EACH_SECONDS)
        except TooLarge as problem:
            log.error("the weights of rank %d are not published: %s", rank, problem.sentence)
            return
        except WorkerError as problem:
            if problem.sentence != told:
                told = problem.sentence
                log.warning("the weights of rank %d are not published yet: %s", rank, told)
            time.sleep(HOPELESS_SECONDS if isinstance(problem, NotAllowed) else pause)
        except Exception:
            log.exception("the weights of rank %d are not published", rank)
            return
        else:
            log.info("the weights of rank %d (%d tensors, session %s) are published", rank, len(tensors), session)
            return
