# SPDX-License-Identifier: Apache-2.0
"""What a drive pad wants just now, with a dead man's switch; no clock and no page of its own.

A direction lives only as long as somebody holds it: a held button repeats itself from the page,
and silence, release, *Stop* and a lost page all end it. A latched direction lives until it is
stopped or the page that latched it is gone.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidCommand

HOLD_TIMEOUT = 0.5
"""A held direction ends when its page was silent this long [s]; pages repeat at 10 Hz, less evenly
where they are drawn without a graphics card. Letting go is told at once, without this wait."""
STOP_REPEATS = 3
"""How often a zero is sent after driving, because one message may be lost on the way."""


class Direction(enum.Enum):
    """Where a drive pad can send a base: signs of (forward, left, counter-clockwise).

    In reverse, too, a car goes to the side that its wheels are turned to.
    """

    FORWARD = (1, 0, 0)
    BACK = (-1, 0, 0)
    TURN_LEFT = (0, 0, 1)
    TURN_RIGHT = (0, 0, -1)
    SLIDE_LEFT = (0, 1, 0)
    SLIDE_RIGHT = (0, -1, 0)
    ARC_LEFT = (1, 0, 1)
    ARC_RIGHT = (1, 0, -1)
    BACK_LEFT = (-1, 0, -1)
    BACK_RIGHT = (-1, 0, 1)


@dataclass(frozen=True)
class PadTwist:
    """Velocity of a base in its own frame."""

    vx: float = 0.0
    """Forward [m/s]."""
    vy: float = 0.0
    """To the left [m/s]."""
    wz: float = 0.0
    """Counter-clockwise [rad/s]."""


@dataclass(frozen=True)
class _Drive:
    direction: Direction
    client: int
    latched: bool
    seen: float


class PadState:
    """State of one drive pad; the caller gives the time and takes care of threads.

    Args:
        linear: speed [m/s].
        angular: turn rate [rad/s].
    """

    def __init__(self, linear: float, angular: float) -> None:
        """Start at rest."""
        self._linear = self._angular = 0.0
        self.set_speeds(linear, angular)
        self._drive: _Drive | None = None
        self._zeros_due = 0

    @property
    def active(self) -> bool:
        """Whether there is something to send: a motion, or the zeros that end it."""
        return self._drive is not None or self._zeros_due > 0

    @property
    def direction(self) -> Direction | None:
        """Where it drives, None at rest."""
        return self._drive.direction if self._drive else None

    @property
    def latched_by(self) -> int | None:
        """The page whose latched drive is under way, if one is."""
        return self._drive.client if self._drive and self._drive.latched else None

    def set_speeds(self, linear: float, angular: float) -> None:
        """Set speed [m/s] and turn rate [rad/s]; a drive under way changes with them.

        Raises:
            InvalidCommand: for a negative or non-finite one; nothing changes then.
        """
        if not (np.isfinite([linear, angular]).all() and linear >= 0.0 and angular >= 0.0):
            raise InvalidCommand(
                f"Drive speeds are {linear} and {angular}; both must be 0 or more."
            )
        self._linear, self._angular = float(linear), float(angular)

    def hold(self, direction: Direction, client: int, now: float) -> None:
        """Drive on, because a page says that the button is (still) down; time in [s]."""
        self._drive = _Drive(direction, client, latched=False, seen=now)

    def latch(self, direction: Direction, client: int, now: float) -> None:
        """Drive until stopped."""
        self._drive = _Drive(direction, client, latched=True, seen=now)

    def release(self) -> None:
        """End a held drive; a latched one goes on."""
        if self._drive is not None and not self._drive.latched:
            self.stop()

    def stop(self) -> None:
        """Come to rest, and say so even when already there."""
        self._drive = None
        self._zeros_due = STOP_REPEATS

    def client_left(self, client: int) -> None:
        """End what a page that is gone had started."""
        if self._drive is not None and self._drive.client == client:
            self.stop()

    def step(self, now: float) -> PadTwist | None:
        """Return what to send now, or None when nothing is due; time in [s]."""
        drive = self._drive
        if drive is not None and not drive.latched and now - drive.seen > HOLD_TIMEOUT:
            self.stop()
            drive = None
        if drive is not None:
            forward, left, turn = drive.direction.value
            return PadTwist(forward * self._linear, left * self._linear, turn * self._angular)
        if self._zeros_due > 0:
            self._zeros_due -= 1
            return PadTwist()
        return None
