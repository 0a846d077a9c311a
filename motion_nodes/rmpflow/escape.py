# SPDX-License-Identifier: Apache-2.0
"""Recovery of a stuck policy, for one target: retreat to its posture once, or use a planner.

Local minima are typically caused by joints on the wrong side of their ranges and by the wrong elbow
configuration; starting near its posture the policy finds a path. Obstacles and limits are respected
during the retreat, and no planner is needed. A planner may solve cases that the retreat does not,
and is tried first if available; if it fails, the posture is tried, and the planner again later. A
target that the planner reports as unreachable or in collision is not tried again until it moves or
the scene changes.
"""

from __future__ import annotations

import math

from motion_nodes.rmpflow.follower_settings import FollowerSettings
from motion_nodes.typing import Array

_NEAR = 0.3  # [rad or m] tolerance of the posture for the end of a retreat
_LONGEST = 15.0  # [s] max duration of a retreat


class EscapeAttempts:
    """Recovery attempts for a target, and which may be tried next."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset, as for a new target."""
        self.retreating = False
        """Whether only the posture is active (retreat)."""
        self._retreated = False
        self._retreat_lasted = 0.0
        self._no_planner_until = -math.inf
        self._impossible = False
        self.X_WT: Array | None = None
        """Target of the last planner request, shape (4, 4); None before the first."""
        self.fault = ""
        """Why the planner failed; empty if it did not."""
        self.brought = False
        """Whether a planner has just moved the arm to the target."""

    def retreat(self, settings: FollowerSettings) -> bool:
        """Begin a retreat, unless already tried or disabled; return whether it begins."""
        self.retreating = settings.retreat and not self._retreated and not self._impossible
        self._retreated |= self.retreating
        return self.retreating

    def step(self, posture_error: float, stuck: bool, dt: float) -> bool:
        """Return whether the retreat ends with this step.

        Args:
            posture_error: max distance of a joint from the posture [rad or m].
            stuck: whether the posture makes no progress, either.
            dt: length of the step [s].

        Returns:
            Whether it ends.
        """
        self._retreat_lasted += dt
        self.retreating = posture_error > _NEAR and not stuck and self._retreat_lasted < _LONGEST
        return not self.retreating

    def may_ask_planner(self, settings: FollowerSettings, now: float) -> bool:
        """Return whether a planner may be called; ``now`` is a time [s]."""
        return settings.escape and now >= self._no_planner_until

    def planned(
        self, settings: FollowerSettings, now: float, fault: str, *, impossible: bool = False
    ) -> None:
        """Process the result of a planner request.

        Args:
            settings: define when it may try again.
            now: time [s].
            fault: why it failed; empty if it did not.
            impossible: whether the target itself is unreachable or in collision.
        """
        self.fault, self.brought, self._impossible = fault, not fault, impossible
        pause = math.inf if impossible else settings.escape_pause
        self._no_planner_until = now + pause if fault else -math.inf

    def scene_changed(self, settings: FollowerSettings, now: float) -> None:
        """Allow another attempt for a target that was unreachable in the previous scene."""
        if self._impossible:
            self._impossible = False
            self._no_planner_until = now + settings.escape_pause
