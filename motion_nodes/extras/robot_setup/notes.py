# SPDX-License-Identifier: Apache-2.0
"""Notes for the user: what was measured, changed or estimated when a robot was created.

Questions about a new robot whose answers do not follow from its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from motion_nodes.errors import InvalidConfig

FindingKind = Literal["measured", "guessed", "changed", "missing"]
"""Measured: computed from the URDF and its geometry. Guessed: an estimate to be checked. Changed:
a modification of the URDF. Missing: data that are not available."""
Confidence = Literal["high", "medium", "low"]
"""Confidence of a guess. High: implied by the file. Medium: from names or structure. Low: one of
several equivalent candidates."""


@dataclass(frozen=True)
class Finding:
    """One note."""

    kind: FindingKind
    topic: str
    """Subject: a file of the folder, or a field."""
    text: str
    """Description and reason."""
    confidence: Confidence | None = None
    """Confidence of a guess among candidates; None: an estimated value."""

    @property
    def sentence(self) -> str:
        """The text, with the confidence if there is one."""
        return self.text if self.confidence is None else f"{self.text} [{self.confidence}]"


@dataclass(frozen=True)
class Question:
    """A guessed choice that the user can correct."""

    topic: str
    """Field of robot.yaml."""
    text: str
    choices: tuple[str, ...]
    """Allowed answers."""
    guess: str
    """Default answer in non-interactive use."""
    confidence: Confidence
    reason: str
    """Evidence for the guess."""


Ask = Callable[[Question], str]
"""Returns one of the choices of a question."""
Progress = Callable[[str], None]
"""Is called with the name of each step."""


def take_guess(question: Question) -> str:
    """Return the guess, for non-interactive use."""
    return question.guess


class Notes:
    """Mutable list of notes; questions whose answer is uncertain are asked.

    Args:
        ask: answers questions; default: by the guess, for non-interactive use.
    """

    def __init__(self, ask: Ask = take_guess) -> None:
        self._items: list[Finding] = []
        self._ask = ask

    def add(
        self, kind: FindingKind, topic: str, text: str, confidence: Confidence | None = None
    ) -> None:
        """Add a note."""
        self._items.append(Finding(kind, topic, text, confidence))

    def __iter__(self) -> Iterator[Finding]:
        """Yield all notes in order."""
        return iter(self._items)

    def __len__(self) -> int:
        """Return the number of notes."""
        return len(self._items)

    def of(self, kind: FindingKind) -> list[Finding]:
        """Return the notes of one kind."""
        return [item for item in self._items if item.kind == kind]

    def answer(self, question: Question) -> str:
        """Return the user's answer, or the guess if it is certain or has no alternative.

        Raises:
            InvalidConfig: the answer is not among the choices.
        """
        if question.confidence == "high" or len(question.choices) < 2:
            return question.guess
        answer = self._ask(question)
        if answer not in question.choices:
            choices = ", ".join(question.choices)
            raise InvalidConfig(f"{question.topic}: '{answer}' is not among the choices {choices}.")
        return answer


def listed(names: Iterable[str], most: int = 6) -> str:
    """Return names for a sentence; long lists are abbreviated with their length."""
    words = list(names)
    if len(words) <= most:
        return ", ".join(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"
