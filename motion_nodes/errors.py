# SPDX-License-Identifier: Apache-2.0
"""Errors of the suite: each names what was given, what is allowed, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MotionError(Exception):
    """Root of every error that a user's input can cause."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return a hint that names the nearest allowed word and lists the allowed ones.

    Args:
        given: the word that was not understood.
        allowed: the words that would have been.

    Returns:
        Text that starts with a blank, such as ``" Did you mean 'home'? Available: home, ready."``.
    """
    words = list(allowed)
    if not words:
        return " None are available."
    near = difflib.get_close_matches(given, words, n=1, cutoff=0.6)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    shown = ", ".join(words[:30]) + (f", ... ({len(words)} in all)" if len(words) > 30 else "")
    return f"{hint} Available: {shown}."


class _UnknownName(MotionError, LookupError):
    """A name that is not among the known ones."""

    kind = "name"

    def __init__(self, given: str, allowed: Iterable[str], where: str = "") -> None:
        self.given = given
        self.allowed = tuple(allowed)
        place = f" in {where}" if where else ""
        super().__init__(
            f"{self.kind} '{given}' is not known{place}.{did_you_mean(given, self.allowed)}"
        )


class RobotNotFound(_UnknownName):
    """No robot of that name is shipped and no file of that path exists."""

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
    """Input that is not allowed.

    Args:
        text: what was given, what is allowed, and what to do.
        field: name of the offending parameter, field or joint; empty where there is not one.
    """

    def __init__(self, text: str, *, field: str = "") -> None:
        self.field = field
        super().__init__(text)


class InvalidDescription(_InvalidInput):
    """A robot description (YAML or URDF) that cannot be used; the text names file and field."""


class InvalidCommand(_InvalidInput):
    """A command that was rejected whole; nothing moved."""


class InvalidConfig(_InvalidInput):
    """Settings that contradict themselves or lie outside what is allowed."""
