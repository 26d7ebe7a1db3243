"""What one probe of a rank's address saw."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Contact(enum.StrEnum):
    """The answer of one address to a TCP connect and a ZMTP greeting."""

    UNPROBED = "unprobed"
    """Nobody asked: outside the allowed networks, over the budget, or not yet."""

    UP = "up"
    """The peer greeted as ZMTP 3 or newer, as every rank of SGLang does."""

    REFUSED = "refused"
    """Every address answered the connect with a reset: the host is there, the listener is not."""

    SILENT = "silent"
    """The connect was accepted, but no greeting came: a frozen process, or one that hung up."""

    UNREACHED = "unreached"
    """Nothing answered the connect: no route, no name, or a time-out. Says nothing about the rank."""

    STRANGER = "stranger"
    """Somebody answered, but not in ZMTP 3: another program holds the port."""

    @property
    def is_proof_of_death(self) -> bool:
        """Whether this alone may count against a rank that greeted before."""
        return self is Contact.REFUSED


# With several addresses behind one name, the least damning answer is the name's answer:
# a rank is refused only when all of its addresses refuse.
LENIENCY = (
    Contact.UP,
    Contact.SILENT,
    Contact.STRANGER,
    Contact.UNREACHED,
    Contact.UNPROBED,
    Contact.REFUSED,
)


def combine(contacts: Iterable[Contact]) -> Contact:
    """One answer for a name with several addresses.

    >>> combine([Contact.REFUSED, Contact.UP])
    <Contact.UP: 'up'>
    >>> combine([])
    <Contact.UNREACHED: 'unreached'>
    """
    return min(contacts, key=LENIENCY.index, default=Contact.UNREACHED)
