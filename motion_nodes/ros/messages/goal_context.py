# SPDX-License-Identifier: Apache-2.0
"""What the constraints of a planning request are understood with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from numpy.typing import NDArray

from motion_nodes.errors import UnknownFrame
from motion_nodes.model.robot import Group, Robot
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.robot_frames import RobotFrames

Array = NDArray[np.float64]
Codes = MoveItErrorCodes


@dataclass(frozen=True)
class GoalContext:
    """What constraints are understood with."""

    robot: Robot
    group: Group
    """Whose joints are planned for; gives their order."""
    q: Array
    """All joints of the robot at the start, shape (n,)."""
    frames: RobotFrames
    notes: list[str] = field(default_factory=list)
    """What a client should know; filled."""

    @property
    def start(self) -> Array:
        """The group's joints at the start."""
        return self.q[self.group.indices]

    def link(self, name: str) -> str:
        """Return a link by name, the group's tip for none.

        Raises:
            RequestRejected: there is no such link.
        """
        own = self.frames.name_of(name) if name else self.group.tip
        if own is None:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME,
                f"group '{self.group.name}' has no tip; a constraint must name its link",
            )
        links = self.robot.tree.links
        if own not in links:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME, str(UnknownFrame(name, tuple(links), self.robot.name))
            )
        moved = {joint.name for joint in self.robot.tree.path(self.robot.tree.root, own)}
        if not moved & set(self.group.joints):
            raise RequestRejected(
                Codes.INVALID_LINK_NAME,
                f"group '{self.group.name}' does not move link '{own}', so it cannot be asked for",
            )
        return own


def refused(text: str) -> RequestRejected:
    """Return the refusal of constraints, for the reason given."""
    return RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, text)
