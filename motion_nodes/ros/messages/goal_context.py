# SPDX-License-Identifier: Apache-2.0
"""Context in which the constraints of a planning request are interpreted."""

from __future__ import annotations

from dataclasses import dataclass, field

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.errors import UnknownFrame
from motion_nodes.model.robot import Group, Robot
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.typing import Array

Codes = MoveItErrorCodes


@dataclass(frozen=True)
class GoalContext:
    """Robot, planning group and start state of a request."""

    robot: Robot
    group: Group
    """Planning group, whose joints give the order of joint goals."""
    q: Array
    """Start positions of all joints of the robot [rad or m], shape (n,)."""
    frames: RobotFrames
    notes: list[str] = field(default_factory=list)
    """Notes for the client, collected while constraints are interpreted."""

    @property
    def start(self) -> Array:
        """Start positions of the group's joints [rad or m], shape (k,)."""
        return self.q[self.group.indices]

    def moves(self, frame: str) -> bool:
        """Return whether joints of the group move a frame.

        Args:
            frame: a link, possibly with the robot's frame prefix, an attached object or a subframe.
        """
        own, tree = self.carrier(frame)[0], self.robot.tree
        if own not in tree.links:
            return False
        above = {joint.name for joint in tree.path(tree.root, own)}
        return bool(above & set(self.group.joints))

    def carrier(self, frame: str) -> tuple[str, Array | None]:
        """Return the link that carries a frame, and the pose in it; None for the link itself."""
        found = self.frames.scene_frame(frame)
        if found is None or found.link is None:
            return self.frames.name_of(frame), None
        return found.link, found.X

    def target(self, name: str) -> tuple[str, Array | None]:
        """Return the link of a constraint, and the constrained frame in it.

        Args:
            name: a link as of :meth:`link`, an attached object, or ``object/subframe`` of one.

        Returns:
            Name of the link; pose of the frame in it, shape (4, 4), None for the link itself.

        Raises:
            RequestRejected: there is no such link or attached frame, or the group does not move it.
        """
        link, X_LF = self.carrier(name) if name else (name, None)
        return self.link(link if X_LF is not None else name), X_LF

    def link(self, name: str) -> str:
        """Return the link of a constraint.

        Args:
            name: its name, possibly with the robot's frame prefix; empty for the group's tip.

        Raises:
            RequestRejected: there is no such link, or the group does not move it.
        """
        own = self.frames.name_of(name) if name else self.group.tip
        if own is None:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME,
                f"group '{self.group.name}' has no tip of its own; name the link"
                + (
                    f", e.g. one of its tips {', '.join(self.group.tips)}"
                    if self.group.tips
                    else ""
                ),
            )
        links = self.robot.tree.links
        if own not in links:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME, str(UnknownFrame(name, tuple(links), self.robot.name))
            )
        if not self.moves(own):
            raise RequestRejected(
                Codes.INVALID_LINK_NAME,
                f"group '{self.group.name}' does not move link '{own}'; constrain another link",
            )
        return own


def refused(text: str) -> RequestRejected:
    """Return the error that rejects constraints, for a reason."""
    return RequestRejected(Codes.INVALID_GOAL_CONSTRAINTS, text)
