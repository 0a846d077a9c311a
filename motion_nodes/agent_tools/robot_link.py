# SPDX-License-Identifier: Apache-2.0
"""Interface of the functions to a running suite; ``nodes/agent`` implements it over ROS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from motion_nodes.errors import MotionError
from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import Part

Report = Callable[[str], None]
"""Receives lines about the progress."""


class NotDone(MotionError):
    """The suite refused, failed or did not respond; the text is the reason that it gave."""


@dataclass(frozen=True, eq=False)
class SceneItem:
    """One object of the planning scene."""

    name: str
    parts: tuple[Part, ...]
    """Shapes with their poses in the object."""
    X_BO: Array
    """Pose in the base frame of the robot, or of the link that it is attached to, (4, 4)."""
    link: str = ""
    """Link that it is attached to; empty: none."""


@dataclass(frozen=True, eq=False)
class TipTarget:
    """Pose of a group's tip."""

    link: str
    X_BT: Array
    """In the base frame, shape (4, 4)."""
    oriented: bool
    """Whether the orientation matters."""


@dataclass(frozen=True, eq=False)
class PlannedJointMotion:
    """A planned motion."""

    joint_names: tuple[str, ...]
    times: Array
    """From the start [s], shape (k,)."""
    positions: Array
    """[rad or m], shape (k, n)."""
    message: Any
    """Data that the link executes."""
    note: str = ""
    """Note of the planner."""


class RobotLink(Protocol):
    """One robot of a running suite. All methods raise NotDone with the reason."""

    def positions(self) -> Mapping[str, float]:
        """Return measured joint positions by name [rad or m]."""

    def scene(self) -> Sequence[SceneItem]:
        """Return the objects of the planning scene, attached ones among them."""

    def plan(
        self,
        group: str,
        goal: Mapping[str, float] | TipTarget,
        velocity: float,
        acceleration: float,
    ) -> PlannedJointMotion:
        """Plan a motion around obstacles; nothing moves.

        Args:
            group: planning group.
            goal: joint positions by name [rad or m], or a pose.
            velocity: scaling factor of the velocity limits.
            acceleration: scaling factor of the acceleration limits.
        """

    def execute(self, path: PlannedJointMotion, report: Report) -> None:
        """Execute a planned motion and wait for its end."""

    def grip(self, position: float, max_effort: float) -> str:
        """Move the fingers.

        Args:
            position: of the finger joints [m or rad].
            max_effort: [N or N m]; 0: that of the drives.

        Returns:
            The outcome: position reached, or stopped by an object.
        """

    def plan_task(self, task: str) -> list[dict[str, Any]]:
        """Return the plan of skills of a sentence or of a plan as JSON; nothing moves."""

    def run_task(self, plan: Sequence[Mapping[str, Any]], report: Report) -> None:
        """Execute a plan of skills and wait for its end."""

    def cancel(self) -> None:
        """Cancel the motion or task under way, if there is one."""

    def stop(self) -> list[str]:
        """Stop all robots of the suite, latched; return a line for each."""

    def resume(self) -> None:
        """Let robots accept commands again, if they were stopped by this link alone."""

    @property
    def stop_reason(self) -> str:
        """Why commands are refused; empty while they are not."""
