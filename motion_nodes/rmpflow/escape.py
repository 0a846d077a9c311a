# SPDX-License-Identifier: Apache-2.0
"""How an arm that is stuck gets out, for one target: back to its posture once, or by a planner.

Joints on the wrong side of their ranges and elbows bent the wrong way hold a policy; from near its
posture it finds the way. Obstacles and limits are minded all the while, and no planner is needed.
A planner may find what the posture does not lead to, and comes first where there is one; where it
failed, the posture is tried, and the planner again later. A target that the planner reports as out
of reach or in collision is not tried again until it moves or the scene changes.
"""

from __future__ import annotations

import math

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.follower_settings import FollowerSettings

_NEAR = 0.3  # [rad or m] so near to the posture it has come back
_LONGEST = 15.0  # [s]


class WaysOut:
    """What was tried for a target, and what may be tried next."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as for a new target."""
        self.retreating = False
        """Whether the posture alone leads now."""
        self._retreated = False
        self._retreat_lasted = 0.0
        self._no_planner_until = -math.inf
        self._hopeless = False
        self.X_WT: Array | None = None
        """Target of the newest try, shape (4, 4); None before the first."""
        self.trouble = ""
        """Why the planner failed, in words; empty if it did not."""
        self.brought = False
        """Whether a planner has just brought the arm to the target."""

    def retreat(self, settings: FollowerSettings) -> bool:
        """Go back, unless that was tried or is not wanted; return whether it begins."""
        self.retreating = settings.retreat and not self._retreated and not self._hopeless
        self._retreated |= self.retreating
        return self.retreating

    def step(self, posture_error: float, stuck: bool, dt: float) -> bool:
        """Return whether the way back ends with this step.

        Args:
            posture_error: greatest distance of a joint from the posture [rad or m].
            stuck: whether the posture comes no nearer, either.
            dt: length of the step [s].
        """
        self._retreat_lasted += dt
        self.retreating = posture_error > _NEAR and not stuck and self._retreat_lasted < _LONGEST
        return not self.retreating

    def may_ask_planner(self, settings: FollowerSettings, now: float) -> bool:
        """Return whether a planner shall look for a way; ``now`` is a time [s]."""
        return settings.escape and now >= self._no_planner_until

    def planned(
        self, settings: FollowerSettings, now: float, trouble: str, *, hopeless: bool = False
    ) -> None:
        """Take what came of a planner's try.

        Args:
            settings: say when it may try again.
            now: time [s].
            trouble: why it failed; empty if it did not.
            hopeless: whether the target itself cannot be reached as it is.
        """
        self.trouble, self.brought, self._hopeless = trouble, not trouble, hopeless
        pause = math.inf if hopeless else settings.escape_pause
        self._no_planner_until = now + pause if trouble else -math.inf

    def scene_changed(self, settings: FollowerSettings, now: float) -> None:
        """Allow another try for a target that could not be reached in the scene before."""
        if self._hopeless:
            self._hopeless = False
            self._no_planner_until = now + settings.escape_pause
