# SPDX-License-Identifier: Apache-2.0
"""Detection of references that a robot cannot follow within its velocity limits."""

from __future__ import annotations

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.typing import Array


class JumpCheck:
    """Compares each reference with the one before, and with the position that was sent."""

    def __init__(self, limits: JointLimits, max_jump: float, longest: float) -> None:
        """Create without a reference.

        Args:
            limits: limits of the joints, of which those of velocity are used.
            max_jump: max step in excess of the velocity limits [rad or m].
            longest: max time between two references in which joints may move on [s].
        """
        self._names, self._max_jump, self._longest = limits.names, max_jump, longest
        self._velocity = np.where(np.isfinite(limits.velocity), limits.velocity, 0.0)
        self.reset()

    def reset(self) -> None:
        """Forget the reference before: the next one is compared with the sent position."""
        self._last: tuple[int, Array] | None = None

    def check(self, reference: Array, sent: Array, now_ns: int, dt: float) -> str:
        """Return a description of a jump; empty if there is none.

        In a late cycle the references advance further, which is not a jump.

        Args:
            reference: positions [rad or m], shape (n,), NaN for joints without one.
            sent: last sent positions [rad or m], shape (n,).
            now_ns: time of the cycle [ns].
            dt: time by which the robot's reference advances in it [s].
        """
        before, elapsed = sent, dt
        if self._last is not None:
            before = self._last[1]
            elapsed = min(max((now_ns - self._last[0]) * 1e-9, dt), self._longest)
        self._last = (now_ns, reference)
        return self._beyond("jumped", before, reference, elapsed) or self._beyond(
            "ran away", sent, reference, max(self._longest, dt)
        )

    def _beyond(self, verb: str, before: Array, after: Array, duration: float) -> str:
        """Return the reference that is farther than reachable within a duration [s], as text."""
        apart = np.abs(np.nan_to_num(after - before))
        allowed = self._max_jump + self._velocity * duration
        i = int(np.argmax(apart - allowed))
        if apart[i] <= allowed[i]:
            return ""
        return (
            f"the reference of {self._names[i]} {verb} from {before[i]:.4f} to {after[i]:.4f} "
            f"({apart[i]:.3f}; allowed are {allowed[i]:.3f})"
        )
