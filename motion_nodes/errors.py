# SPDX-License-Identifier: Apache-2.0
"""Exceptions; each message states the input, its place, the allowed values and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import UnionType


class MotionError(Exception):
    """Base class of all errors caused by input."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return a hint with the closest allowed name and a list of the allowed ones.

    Args:
        given: unknown name.
        allowed: known names.

    Returns:
        Text with a leading space, such as ``" Did you mean 'home'? Available: home, ready."``.
    """
    words = list(allowed)
    if not words:
        return " None are available."
    given = str(given)
    near = difflib.get_close_matches(given, words, n=1, cutoff=0.6)
    # A part of a name, such as "hand" of "panda_hand".
    near = near or sorted((w for w in words if given.lower() in w.lower()), key=len)[:1]
    hint = f" Did you mean '{near[0]}'?" if near else ""
    shown = ", ".join(words[:30]) + (f", ... ({len(words)} in all)" if len(words) > 30 else "")
    return f"{hint} Available: {shown}."


class _UnknownName(MotionError, LookupError):
    """Unknown name."""

    kind = "name"

    def __init__(self, given: str, allowed: Iterable[str], where: str = "") -> None:
        self.given = given
        self.allowed = tuple(allowed)
        place = f" in {where}" if where else ""
        super().__init__(
            f"{self.kind} '{given}' is not known{place}.{did_you_mean(given, self.allowed)}"
        )


class RobotNotFound(_UnknownName):
    """No robot has this name, and no file this path."""

    kind = "robot"


class UnknownJoint(_UnknownName):
    """A joint name that the robot or group does not have."""

    kind = "joint"


class UnknownFrame(_UnknownName):
    """A link or frame name that the robot does not have."""

    kind = "frame"


class UnknownGroup(_UnknownName):
    """A planning group (or alias) that the robot does not have."""

    kind = "group"


class UnknownState(_UnknownName):
    """A named state that the robot does not have."""

    kind = "named state"


class _InvalidInput(MotionError, ValueError):
    """Invalid input.

    Args:
        text: input, allowed values, and remedy.
        field: name of the invalid parameter, field or joint; empty: none.
    """

    def __init__(self, text: str, *, field: str = "") -> None:
        self.field = field
        super().__init__(text)


class InvalidDescription(_InvalidInput):
    """Invalid robot description or other file; the text names file and field."""


class InvalidCommand(_InvalidInput):
    """Invalid command or argument; rejected as a whole, without effect."""


class InvalidConfig(_InvalidInput):
    """Settings that are inconsistent or out of range."""


def check_type(value: object, kind: type | UnionType, what: str) -> None:
    """Raise an error for an argument of another type; None is allowed.

    Args:
        value: the argument.
        kind: type that it must have.
        what: name of the argument.

    Raises:
        InvalidCommand: names the argument, its type and the one needed.
    """
    if value is not None and not isinstance(value, kind):
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise InvalidCommand(
            f"{what} must be of type {name}, got {value!r:.60} ({type(value).__name__}).",
            field=what,
        )
