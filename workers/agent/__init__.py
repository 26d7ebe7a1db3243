"""A reference prefill and decode pair: a small model, split as engines split theirs, that hands its KV cache over.

    python -m workers.agent prefill --kv 127.0.0.1:8998 --instance prefill-a --tp 2 --dp 2
    python -m workers.agent decode --port 30001 --tp 4

Both answer SGLang's `POST /generate` (`input_ids`, `bootstrap_host`, `bootstrap_port`, `bootstrap_room`), `/health`,
`/server_info`, `/v1/loads` and `/abort_request`, so that a router, a gateway or a person with curl may drive them. One
process is one instance: its ranks are threads, each with the sockets and the memory of its own. `running.oracle` is what the
same model says in one piece.
"""
