"""Holds an engine's KV bootstrap port on its host, so that an unmodified SGLang engine registers with a control plane elsewhere.

    python -m workers.agent relay --kv cp.rack:8998 --instance prefill-a --data /var/lib/pd-relay

SGLang's own server finds the port taken and the engine goes on: its ranks register here. What is acknowledged is on disk first.
While the control plane answers, its word counts; while it is away, the relay answers from what it holds, and forwards in order
when it is back. It decides nothing about launches. Nothing here needs more than the standard library and msgspec.
"""
