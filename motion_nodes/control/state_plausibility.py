# SPDX-License-Identifier: Apache-2.0
"""Plausibility of measured joint states and of their source.

- :class:`StatePlausibility`: whether a position can follow from the last one, by the velocity
  limit. A slipping encoder or a mixed-up message reports positions that cannot have been reached.
- :class:`FrozenStates`: states that do not change though the references of the joints move, as from
  a driver that repeats its last measurement.
- :class:`SourceWatch`: several publishers that report (or command) the same joints in turns.

Acting on such states would be worse than not knowing. Implausible positions are not used; where
states are frozen, or come from several publishers, the state of the robot counts as lost.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.plausible_step import SLACK, max_plausible_step

Array = NDArray[np.float64]

CONFIRMED = 0.04
"""Min duration of a motion without a change, beyond the lag of the drives [s]."""
REPEATS = 5
"""Min number of equal measurements of a joint that counts as frozen."""
CONTRADICTION = 0.02
"""Reported velocity of a joint that cannot be at rest [rad/s or m/s]."""
SPAN = 2.0
"""Time window in which changes of the publisher are counted [s]."""
CHANGES = 3
"""Number of changes within it that one publisher taking over from another does not cause."""


class StatePlausibility:
    """Bounds the steps of measured positions of n joints."""

    def __init__(self, max_velocity: Array) -> None:
        """Create the check.

        Args:
            max_velocity: of the joints [rad/s or m/s], shape (n,); infinite for no check.
        """
        self._max_velocity = max_velocity

    def possible(
        self, joints: NDArray[np.intp], before: Array, after: Array, dt: Array
    ) -> NDArray[np.bool_]:
        """Return which joints can have moved from one position to another.

        Args:
            joints: indices, shape (k,).
            before: last accepted positions [rad or m], shape (k,); NaN where there is none.
            after: reported positions [rad or m], shape (k,).
            dt: time since the last accepted position was received [s], shape (k,).

        Returns:
            Mask of shape (k,).
        """
        reach = max_plausible_step(self._max_velocity[joints], dt)
        with np.errstate(invalid="ignore"):
            return ~(np.abs(after - before) > reach)


class FrozenStates:
    """Detects measurements of n joints that are repeated while the references move.

    A joint is suspicious once its reference has travelled further than :data:`SLACK`, over more
    than the lag of the drives, and each measurement since was bitwise equal. Two of them are
    frozen, for noise and motion change at least the last bits of real measurements. One alone may
    as well be blocked, where encoders are coarse; it is frozen if its reported velocity contradicts
    its constant position.
    """

    def __init__(self, lag: float, exempt: NDArray[np.bool_]) -> None:
        """Create the check.

        Args:
            lag: max lag of the drives and of the measurement [s].
            exempt: joints that are not checked, such as fingers that hold an object, shape (n,).
        """
        self._lag = lag
        self._exempt = exempt
        n = len(exempt)
        self._measured: Array = np.full((3, n), np.nan)
        self._new = self._measured.copy()
        self._reference: Array = np.full(n, np.nan)
        self._resting: Array | None = None
        """The last reference, if it is read-only and commands no motion."""
        self._travel: Array = np.zeros(n)
        self._elapsed: Array = np.zeros(n)
        self._repeats: NDArray[np.intp] = np.zeros(n, np.intp)
        self.joints: NDArray[np.intp] = np.empty(0, np.intp)
        """Indices of the frozen joints; empty again as soon as the measurement of one changes."""

    def reset(self) -> None:
        """Reset, with no joint frozen."""
        self.joints = np.empty(0, np.intp)
        self._reference[:] = np.nan
        self._resting = None
        self._travel[:] = 0.0
        self._elapsed[:] = 0.0

    def measure(self, position: Array, velocity: Array, effort: Array) -> None:
        """Compare a measurement with the last one.

        Args:
            position: [rad or m], shape (n,).
            velocity: [rad/s or m/s], shape (n,).
            effort: [N m or N], shape (n,), NaN where it is not measured.
        """
        new, old = self._new, self._measured
        new[0], new[1], new[2] = position, velocity, effort
        equal = (new.view(np.int64) == old.view(np.int64)).all(axis=0)
        self._measured, self._new = new, old
        self._repeats += 1
        changed = ~equal
        self._repeats[changed] = 0
        self._travel[changed] = 0.0
        self._elapsed[changed] = 0.0
        if len(self.joints) and not equal[self.joints].all():
            self.joints = np.empty(0, np.intp)

    def command(self, position: Array, velocity: Array, dt: float) -> None:
        """Account for a reference, and update :attr:`joints`.

        Args:
            position: reference [rad or m], shape (n,), NaN for joints without one.
            velocity: reference [rad/s or m/s], shape (n,), likewise.
            dt: time since the last reference [s].
        """
        if position is self._resting and not self._travel.any():
            return
        moves = position.flags.writeable or np.nan_to_num(velocity).any()
        self._resting = None if moves else position
        step = np.abs(position - self._reference)
        self._reference = position.copy()
        self._travel += np.where(np.isnan(step), np.abs(np.nan_to_num(velocity)) * dt, step)
        self._elapsed[self._travel > 0.0] += dt
        suspicious = (self._travel > SLACK) & (self._elapsed > self._lag + CONFIRMED)
        suspicious &= (self._repeats >= REPEATS) & ~self._exempt
        if not suspicious.any():
            return
        moving = suspicious & (np.abs(self._measured[1]) > CONTRADICTION)
        if np.count_nonzero(suspicious) > 1 or moving.any():
            self.joints = np.flatnonzero(suspicious)


class SourceWatch:
    """Detects that several publishers report or command the same of n joints.

    Each publisher numbers its messages, so a number that does not increase belongs to another one.
    """

    def __init__(self, n: int) -> None:
        """Create without a publisher."""
        self._numbers: NDArray[np.int64] = np.full(n, -1, np.int64)
        self._changes: deque[float] = deque(maxlen=CHANGES)
        self._joint = 0

    def note(self, joints: NDArray[np.intp], number: int | None, now: float) -> None:
        """Account for a message.

        Args:
            joints: indices of the joints that it names.
            number: its publisher's sequence number; None where the middleware has none.
            now: time of a clock that does not jump [s].
        """
        if number is None or not len(joints):
            return
        repeated = number <= self._numbers[joints]
        if repeated.any():
            self._changes.append(now)
            self._joint = int(joints[int(np.argmax(repeated))])
        self._numbers[joints] = number

    def rival(self, now: float) -> int | None:
        """Return a joint with several publishers; None if there is at most one."""
        full = len(self._changes) == CHANGES
        return self._joint if full and now - self._changes[0] <= SPAN else None
