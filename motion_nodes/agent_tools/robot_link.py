# SPDX-License-Identifier: Apache-2.0
"""Interface to a running suite; ``nodes/agent`` implements it over ROS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from motion_nodes.errors import MotionError
from motion_nodes.scene.scene import Part
from motion_nodes.typing import Array

Report = Callable[[str], None]
"""Receives progress messages."""


class NotDone(MotionError):
    """The suite rejected the request, failed or did not respond; the text is the reason."""

    def __init__(self, text: str, code: str = "") -> None:
        """Create the error.

        Args:
            text: the reason.
            code: that of a task (docs/tasks.md); empty for other requests.
        """
        self.code = code
        super().__init__(text)


@dataclass(frozen=True, eq=False)
class SceneItem:
    """Object of the planning scene."""

    name: str
    parts: tuple[Part, ...]
    """Shapes with their poses in the object's frame, shape (4, 4) each."""
    X_BO: Array
    """Pose in the base frame of the robot, or in the attached link, shape (4, 4)."""
    link: str = ""
    """Attached link; empty: not attached."""


@dataclass(frozen=True, eq=False)
class TipTarget:
    """Target pose of a group's tip."""

    link: str
    X_BT: Array
    """Pose in the base frame, shape (4, 4)."""
    oriented: bool
    """Whether the orientation is constrained."""


@dataclass(frozen=True, eq=False)
class PlannedJointMotion:
    """A planned motion."""

    joint_names: tuple[str, ...]
    times: Array
    """Times from the start [s], shape (k,)."""
    positions: Array
    """Positions [rad or m], shape (k, n)."""
    message: Any
    """Data of the link, for execution."""
    note: str = ""
    """Note of the planner."""


class RobotLink(Protocol):
    """One robot of a running suite.

    Raises:
        NotDone: any method; with the reason.
    """

    def positions(self) -> Mapping[str, float]:
        """Return measured positions by joint [rad or m]."""

    def scene(self) -> Sequence[SceneItem]:
        """Return the objects of the planning scene, including attached ones."""

    def plan(
        self,
        group: str,
        goal: Mapping[str, float] | TipTarget,
        velocity: float,
        acceleration: float,
    ) -> PlannedJointMotion:
        """Plan a collision-free motion; nothing moves.

        Args:
            group: planning group.
            goal: positions by joint [rad or m], or a pose of the tip.
            velocity: scaling factor of the velocity limits, above 0 to 1.
            acceleration: scaling factor of the acceleration limits, above 0 to 1.
        """

    def execute(self, path: PlannedJointMotion, report: Report) -> None:
        """Execute a planned motion and wait for its end; ``report`` receives progress messages."""

    def grip(self, position: float, max_effort: float) -> str:
        """Move the fingers.

        Args:
            position: position of the finger joints [m or rad].
            max_effort: max effort of each finger [N or N m]; 0: that of the drives.

        Returns:
            The outcome: position reached, or stopped by an object.
        """

    def plan_task(self, task: str) -> list[dict[str, Any]]:
        """Return the plan of skills for a sentence, or for a plan in JSON; nothing moves."""

    def run_task(self, plan: Sequence[Mapping[str, Any]], report: Report) -> None:
        """Execute a plan of skills and wait for its end; ``report`` receives progress messages."""

    def cancel(self) -> None:
        """Cancel the running motion or task, if any."""

    def stop(self) -> list[str]:
        """Stop all robots of the suite, latched; return a message per robot."""

    def resume(self) -> None:
        """Release the stop of this link; stops by others remain."""

    @property
    def stop_reason(self) -> str:
        """Why commands are rejected; empty: accepted."""
