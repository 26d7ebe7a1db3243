"""What goes wrong between a decode rank and a prefill rank, told apart by what the caller can do about it."""

from __future__ import annotations


class MessagingError(Exception):
    """Base of all errors of this package; the text is a sentence that can be shown to a person."""


class BadFrames(MessagingError):
    """A message is not what SGLang's wire says it is. The message is dropped; the sender is not to be trusted with more."""


class Unreachable(MessagingError):
    """Nobody takes messages at the endpoint: it refuses, it is silent, or it does not speak ZeroMQ. Nothing was sent."""


class Congested(MessagingError):
    """The peer is connected and takes nothing within the bound: it is frozen, or behind by a full queue. Nothing was sent."""


class Closed(MessagingError):
    """This side was closed."""
