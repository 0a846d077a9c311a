# SPDX-License-Identifier: Apache-2.0
"""Filter between actions of a learned policy (joint positions at a low rate) and references.

Each action is clamped to the position limits, and to the displacement that the velocity limits
allow in the time since the last action. The reference has a velocity, so that the controller
follows it as a moving target, and a list of configurations that must be collision-free before it is
sent: those on the path to it, and those of the stop after it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.tolerances import POSITION_ROUNDING
from motion_nodes.typing import Array

MAX_PERIODS = 3.0
"""Max duration of one action, after a late one [periods]."""


@dataclass(frozen=True, eq=False)
class FilteredAction:
    """Reference that is sent instead of an action."""

    position: Array
    """[rad or m], shape (n,)."""
    velocity: Array
    """[rad/s or m/s], shape (n,)."""
    way: Array
    """Configurations that must be free of collisions [rad or m], shape (k, n)."""
    changes: tuple[str, ...] = ()
    """Difference from the action, as text; empty if there is none."""


class ActionFilter:
    """Filter for the actions of one robot's joints; the caller checks collisions."""

    def __init__(
        self, limits: JointLimits, rate: float, *, speed: float = 1.0, check_step: float = 0.04
    ) -> None:
        """Create the filter; call :meth:`start` first.

        Args:
            limits: limits of the joints, in the order of all arrays.
            rate: rate of the actions [Hz].
            speed: max fraction of the velocity limits.
            check_step: max distance between two checked configurations in any joint [rad or m].

        Raises:
            InvalidConfig: a value out of its range.
        """
        for name, value, top in (("rate", rate, 1000.0), ("speed", speed, 1.0),
                                 ("check_step", check_step, 1.0)):  # fmt: skip
            if not 0.0 < value <= top:
                raise InvalidConfig(f"{name} is {value:g}; it must be above 0 and up to {top:g}")
        self.limits, self._period = limits, 1.0 / rate
        self._velocity, self._step = limits.velocity * speed, check_step
        self._last: Array | None = None

    def start(self, position: ArrayLike) -> None:
        """Start at the measured state of the robot.

        Args:
            position: measured positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: not finite, or another number of joints.
        """
        self._last = finite_numbers(position, self.limits.names, "the measured state")

    def propose(self, action: ArrayLike, elapsed: float) -> FilteredAction:
        """Return the reference of an action; the state changes only in :meth:`accept`.

        Args:
            action: joint positions [rad or m], shape (n,).
            elapsed: time since the last action [s].

        Raises:
            InvalidCommand: not finite, another number of joints, or the filter was not started.
        """
        desired, last = finite_numbers(action, self.limits.names, "an action"), self._started()
        dt = min(max(elapsed, self._period), MAX_PERIODS * self._period)
        inside = np.clip(desired, self.limits.lower, self.limits.upper)
        most = self._velocity * dt
        # All joints are scaled alike, which preserves the direction of the motion.
        share = float(np.max(np.abs(inside - last) / most, initial=1.0))
        position = last + (inside - last) / share
        velocity = (position - last) / dt
        changes = tuple(
            f"{name} {value:.4f}: its limits are {low:.4f} to {high:.4f}"
            for name, value, low, high, clipped in zip(
                self.limits.names,
                desired,
                self.limits.lower,
                self.limits.upper,
                inside,
                strict=True,
            )
            if abs(value - clipped) > POSITION_ROUNDING
        )
        if share > 1.0 + POSITION_ROUNDING:
            i = int(np.argmax(np.abs(inside - last) / most))
            changes += (
                f"{self.limits.names[i]} needs {share:.1f} times its velocity limit; slowed down",
            )
        return FilteredAction(position, velocity, self._way(last, position, velocity), changes)

    def accept(self, action: FilteredAction) -> None:
        """Continue from an action that was sent."""
        self._last = action.position

    def hold(self) -> FilteredAction:
        """Return the last action that was sent, at rest."""
        last = self._started()
        return FilteredAction(last, np.zeros(len(last)), np.empty((0, len(last))))

    # ---- internals

    def _way(self, last: Array, position: Array, velocity: Array) -> Array:
        """Return configurations on the path to an action and on the stop after it."""
        speed, limits = np.abs(velocity), self.limits
        # Without an acceleration limit, jerk-limited braking has the peak sqrt(v J); without both
        # limits, the stop is immediate.
        peak = np.sqrt(speed * np.where(np.isfinite(limits.jerk), limits.jerk, 0.0))
        braking = np.where(np.isfinite(limits.acceleration), limits.acceleration, peak)
        # Stopping distance: braking, acceleration ramps, and the period until a hold is sent.
        rest = speed * (braking / limits.jerk + self._period)
        rest += np.divide(speed**2, 2.0 * braking, out=np.zeros_like(speed), where=braking > 0.0)
        end = np.clip(position + np.sign(velocity) * rest, limits.lower, limits.upper)
        corners = [last, position, end]
        parts = []
        for begin, finish in itertools.pairwise(corners):
            count = math.ceil(float(np.max(np.abs(finish - begin), initial=0.0)) / self._step)
            shares = np.arange(1, count + 1)[:, None] / max(count, 1)
            parts.append(begin + shares * (finish - begin))
        return np.concatenate(parts)

    def _started(self) -> Array:
        if self._last is None:
            raise InvalidCommand("the filter has no measured state; call start first")
        return self._last
