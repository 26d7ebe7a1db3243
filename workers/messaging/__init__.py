"""Control messages between decode and prefill ranks over ZeroMQ, in the frames of SGLang's Mooncake manager.

A prefill rank binds an `Inbox` and registers its endpoint as `rank_ip` and `rank_port`; a decode rank binds one too, and its
endpoint stands in every message, so that the prefill can answer. Each side sends through an `Outbox`:

    inbox = Inbox("10.0.0.7", 0, read_request)            # prefill; a decode reads with `read_reply`
    listener = Listener(inbox, handle, idle)              # `handle(Registration | KvRequest | Abort)` on a thread
    outbox.send(target, Registration(...).frames())       # decode, once per prefill rank
    outbox.send(target, KvRequest(room=..., ...).frames())
    outbox.send(request.endpoint, Status(room=..., poll=Poll.SUCCESS, prefill_rank=0).frames())

What can be relied on: frames have a fixed form and are checked for length before they are unpacked (nothing is unpickled, ever);
queues, frames and times are bounded; a socket listens on the one address it was given; a peer that hangs up is forgotten, and the
next message connects anew. `Unreachable` and `Congested` mean that nothing was sent. `Outbox.is_open` tells
whether a peer hung up since: `workers.transfer` then looks whether its process is gone. A message that was handed over may
still be lost with its peer, so each room has a deadline there. ZeroMQ has no authentication here, as in SGLang: the
network between ranks must be trusted.
"""

from workers.messaging.endpoint import Endpoint
from workers.messaging.errors import BadFrames, Closed, Congested, MessagingError, Unreachable
from workers.messaging.greeting import greet
from workers.messaging.inbox import Inbox, Listener
from workers.messaging.outbox import Outbox
from workers.messaging.replies import AbortAck, AuxData, Poll, Status, read_reply
from workers.messaging.requests import Abort, KvRequest, Registration, read_request

__all__ = [
    "Abort",
    "AbortAck",
    "AuxData",
    "BadFrames",
    "Closed",
    "Congested",
    "Endpoint",
    "Inbox",
    "KvRequest",
    "Listener",
    "MessagingError",
    "Outbox",
    "Poll",
    "Registration",
    "Status",
    "Unreachable",
    "greet",
    "read_reply",
    "read_request",
]
