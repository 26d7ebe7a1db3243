"""What SGLang's own context says of the engine that this process belongs to (srt/runtime_context.py)."""

from __future__ import annotations


def nodes() -> int:
    from sglang.srt.runtime_context import get_parallel

    return int(getattr(get_parallel(), "nnodes", 1) or 1)


def http_port() -> int | None:
    from sglang.srt.runtime_context import get_serving

    try:
        return int(get_serving().port)
    except Exception:
        return None


def world_rank(tp_rank: int) -> int:
    """Pipeline stages of one engine have the same TP ranks, and each has weights of its own."""
    from sglang.srt.runtime_context import get_parallel

    try:
        parallel = get_parallel()
        return int(parallel.pp_rank) * int(parallel.tp_size) + tp_rank
    except Exception:
        return tp_rank
