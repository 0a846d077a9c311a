# SPDX-License-Identifier: Apache-2.0
"""State of a drive pad with a deadman switch; independent of clock and page.

A direction is active only while its button is held: the page repeats the event, and a timeout, a
release, *Stop* or a disconnected page ends it. A latched direction is active until it is stopped or
the page that latched it disconnects.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidCommand

HOLD_TIMEOUT = 0.5
"""Timeout of a held direction [s]; pages repeat at 10 Hz, with more jitter without a graphics card.
A release is reported immediately."""
STOP_REPEATS = 3
"""Number of zero twists sent after driving, because one message may be lost."""


class Direction(enum.Enum):
    """Directions of a drive pad: signs of (vx, vy, wz).

    With the wheels steered to one side, a car in reverse moves to that side, too.
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
    """Twist of a base in its own frame."""

    vx: float = 0.0
    """Forward velocity [m/s]."""
    vy: float = 0.0
    """Velocity to the left [m/s]."""
    wz: float = 0.0
    """Yaw rate, counter-clockwise [rad/s]."""


@dataclass(frozen=True)
class _Drive:
    direction: Direction
    client: int
    latched: bool
    seen: float


class PadState:
    """State of one drive pad; not thread-safe, the caller provides the time.

    Args:
        linear: linear speed [m/s].
        angular: turn rate [rad/s].

    Raises:
        InvalidCommand: a negative or non-finite speed.
    """

    def __init__(self, linear: float, angular: float) -> None:
        """Start at rest."""
        self._linear = self._angular = 0.0
        self.set_speeds(linear, angular)
        self._drive: _Drive | None = None
        self._zeros_due = 0

    @property
    def active(self) -> bool:
        """Whether there is a twist to send, including the zeros at the end of a motion."""
        return self._drive is not None or self._zeros_due > 0

    @property
    def direction(self) -> Direction | None:
        """Active direction; None at rest."""
        return self._drive.direction if self._drive else None

    @property
    def latched_by(self) -> int | None:
        """Client id of the page with an active latched drive, or None."""
        return self._drive.client if self._drive and self._drive.latched else None

    def set_speeds(self, linear: float, angular: float) -> None:
        """Set the speeds, also of an active drive.

        Args:
            linear: linear speed [m/s].
            angular: turn rate [rad/s].

        Raises:
            InvalidCommand: a negative or non-finite speed; nothing changes.
        """
        if not (np.isfinite([linear, angular]).all() and linear >= 0.0 and angular >= 0.0):
            raise InvalidCommand(
                f"drive speeds are {linear} m/s and {angular} rad/s; both must be finite and 0 or "
                "above.",
                field="speeds",
            )
        self._linear, self._angular = float(linear), float(angular)

    def hold(self, direction: Direction, client: int, now: float) -> None:
        """Start or continue a drive while a button is held.

        Args:
            direction: of the button.
            client: client id of the page.
            now: current time [s].
        """
        self._drive = _Drive(direction, client, latched=False, seen=now)

    def latch(self, direction: Direction, client: int, now: float) -> None:
        """Start a drive that continues until stopped; arguments as in :meth:`hold`."""
        self._drive = _Drive(direction, client, latched=True, seen=now)

    def release(self) -> None:
        """End a held drive; a latched one continues."""
        if self._drive is not None and not self._drive.latched:
            self.stop()

    def stop(self) -> None:
        """Stop; zero twists are sent even at rest."""
        self._drive = None
        self._zeros_due = STOP_REPEATS

    def client_left(self, client: int) -> None:
        """Stop a drive that was started by a disconnected page."""
        if self._drive is not None and self._drive.client == client:
            self.stop()

    def step(self, now: float) -> PadTwist | None:
        """Return the twist to send at the current time ``now`` [s], or None."""
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
