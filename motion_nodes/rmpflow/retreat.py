# SPDX-License-Identifier: Apache-2.0
"""Back from where an arm is stuck to its posture, once for each target, then on to the target.

Joints on the wrong side of their ranges and elbows bent the wrong way hold a policy; from near its
posture it finds the way. Obstacles and limits are minded all the while, and no planner is needed.
"""

from __future__ import annotations

_NEAR = 0.3  # [rad or m] so near to the posture it has come back
_LONGEST = 15.0  # [s]


class Retreat:
    """Whether an arm is on its way back, and whether it may go there."""

    def __init__(self) -> None:
        self.active = False
        """Whether the posture alone leads now."""
        self._done = False
        self._lasted = 0.0

    def reset(self) -> None:
        """Allow another one, as for a new target."""
        self.active, self._done, self._lasted = False, False, 0.0

    def begin(self) -> bool:
        """Go back, unless that was tried for this target; return whether it begins."""
        self.active, self._done = not self._done, True
        return self.active

    def step(self, posture_error: float, stuck: bool, dt: float) -> bool:
        """Return whether it ends with this step.

        Args:
            posture_error: greatest distance of a joint from the posture [rad or m].
            stuck: whether the posture comes no nearer, either.
            dt: length of the step [s].
        """
        self._lasted += dt
        self.active = posture_error > _NEAR and not stuck and self._lasted < _LONGEST
        return not self.active
