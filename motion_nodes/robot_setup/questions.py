# SPDX-License-Identifier: Apache-2.0
"""Questions about a new robot whose answers do not follow from its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from motion_nodes.errors import InvalidConfig
from motion_nodes.robot_setup.notes import Confidence


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


def take_guess(question: Question) -> str:
    """Return the guess, for non-interactive use."""
    return question.guess


def answered(question: Question, ask: Ask) -> str:
    """Return the user's answer, or the guess if it is certain or has no alternative.

    Raises:
        InvalidConfig: the answer is not among the choices.
    """
    if question.confidence == "high" or len(question.choices) < 2:
        return question.guess
    answer = ask(question)
    if answer not in question.choices:
        raise InvalidConfig(
            f"{question.topic}: '{answer}' is not among the choices {', '.join(question.choices)}."
        )
    return answer
