"""Buttons of actions: where each leads, and the sentence beside one that is off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Button:
    """`why`: why it is off; blank when it is on. `about`: what it concerns, for whoever hears it alone."""

    label: str
    url: str
    why: str = ""
    about: str = ""
    look: str = ""
    danger: bool = False

    @property
    def classes(self) -> str:
        tone = "btn-bad" if self.danger and not self.why else ""
        return " ".join(filter(None, ("btn", self.look, tone)))


def reasons(buttons: Iterable[Button]) -> Sequence[str]:
    """One sentence for each reason, with the buttons that it keeps off.

    >>> reasons([Button("Cordon", "", "it is cordoned already"), Button("Drain", ""), Button("Evict", "", "no rank"),
    ...          Button("Retire", "", "no rank")])
    ('Cordon is off: it is cordoned already.', 'Evict, Retire are off: no rank.')
    """
    labels: dict[str, list[str]] = defaultdict(list)
    for button in buttons:
        if button.why:
            labels[button.why].append(button.label)
    return tuple(
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} off: {why.rstrip('.')}."
        for why, names in labels.items()
    )
