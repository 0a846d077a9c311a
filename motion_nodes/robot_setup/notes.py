# SPDX-License-Identifier: Apache-2.0
"""What was found, changed or guessed on the way from a URDF to a robot: the user has to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

FindingKind = Literal["measured", "guessed", "changed", "missing"]
"""Measured: worked out from the URDF and its geometry. Guessed: nothing says so, look at it.
Changed: the URDF could not be used as it was. Missing: something useful is not there."""


@dataclass(frozen=True)
class Finding:
    """One thing that the user should know."""

    kind: FindingKind
    topic: str
    """What it is about: a file of the folder, or a field."""
    text: str
    """What was found, and why."""


class Notes:
    """A list that is added to."""

    def __init__(self) -> None:
        self._items: list[Finding] = []

    def add(self, kind: FindingKind, topic: str, text: str) -> None:
        """Add one."""
        self._items.append(Finding(kind, topic, text))

    def __iter__(self) -> Iterator[Finding]:
        """Yield all, in the order in which they were found."""
        return iter(self._items)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._items)

    def of(self, kind: FindingKind) -> list[Finding]:
        """Return those of one kind."""
        return [item for item in self._items if item.kind == kind]


def listed(names: Iterable[str], most: int = 6) -> str:
    """Return names for a sentence; of many, the first and how many there are."""
    words = list(names)
    if len(words) <= most:
        return ", ".join(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"
