# SPDX-License-Identifier: Apache-2.0
"""moveit_msgs to and from arrays: poses, robot states, error codes with words.

Adapters only: what is wrong with a message is raised as :class:`RequestRejected`, which carries
the code that MoveIt's clients look for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose
from moveit_msgs.msg import MoveItErrorCodes, RobotState
from numpy.typing import NDArray

from motion_nodes.errors import MotionError, UnknownGroup, did_you_mean
from motion_nodes.model.bounds import JOINT_STATE, LENGTH, QUATERNION_NORM
from motion_nodes.model.poses import from_xyz_quat, to_quat_xyzw
from motion_nodes.model.robot import Group, Robot

Array = NDArray[np.float64]

UNIT_TOLERANCE = 1e-3
"""How far a quaternion's length may be from one without a word."""


class RequestRejected(MotionError):
    """A request that cannot be served, with MoveIt's code for it."""

    def __init__(self, code: int, text: str) -> None:
        """Refuse with one of the constants of MoveItErrorCodes and a text for people."""
        super().__init__(text)
        self.code = code


def require_active(node: Any) -> None:
    """Raise if a MotionNode is not active.

    Raises:
        RequestRejected: it is in another lifecycle state.
    """
    if not node.active:
        raise RequestRejected(
            MoveItErrorCodes.FAILURE, f"{node.get_name()} is {node.state_label}, not active"
        )


def requested_group(robot: Robot, name: str) -> Group:
    """Return a group by name or alias; no name means the only one that has a tip.

    Raises:
        RequestRejected: when there is none or more than one.
    """
    if name:
        try:
            return robot.group(name)
        except UnknownGroup as error:
            raise RequestRejected(MoveItErrorCodes.INVALID_GROUP_NAME, str(error)) from None
    chains = [group for group in robot.groups.values() if group.tip is not None]
    if len(chains) != 1:
        names = ", ".join(group.name for group in chains) or "none"
        text = f"name a group; those with a tip: {names}"
        raise RequestRejected(MoveItErrorCodes.INVALID_GROUP_NAME, text)
    return chains[0]


def set_code(message: MoveItErrorCodes, code: int, text: str = "", source: str = "") -> None:
    """Fill in an error code."""
    message.val, message.message, message.source = code, text, source


def pose_of(message: Pose, what: str) -> tuple[Array, str]:
    """Return a pose as a (4, 4) matrix, and a notice for a quaternion that was no unit one.

    Raises:
        RequestRejected: for numbers that are not finite, a zero quaternion, or an absurd distance.
    """
    p, r = message.position, message.orientation
    position, quaternion = (p.x, p.y, p.z), (r.x, r.y, r.z, r.w)
    if not all(map(math.isfinite, position + quaternion)):
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            f"{what} is not finite: position {position}, orientation {quaternion}",
        )
    if max(map(abs, position)) > LENGTH.max:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            f"{what} lies {max(map(abs, position)):.3g} m away; positions are given in metres, "
            f"allowed are {LENGTH.text()}",
        )
    length = math.hypot(*quaternion)
    shortest, longest = QUATERNION_NORM
    if not shortest <= length <= longest:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            f"{what} has the orientation {quaternion} of norm {length:.3g}, which is no rotation; "
            f"for none give x y z w = 0 0 0 1; allowed are norms of {shortest:g} to {longest:g}",
        )
    notice = ""
    if abs(length - 1.0) > UNIT_TOLERANCE:
        notice = f"the quaternion of {what} had length {length:.6g} and was normalised"
    return from_xyz_quat(position, quaternion), notice


def pose_message(X: Array) -> Pose:
    """Return a (4, 4) pose as a message."""
    message = Pose()
    p, r = message.position, message.orientation
    p.x, p.y, p.z = X[:3, 3].tolist()
    r.x, r.y, r.z, r.w = to_quat_xyzw(X).tolist()
    return message


def joint_values(state: RobotState, known: Sequence[str], what: str) -> dict[str, float]:
    """Return the joint positions that a robot state gives, of the joints that are known.

    Joints of other robots may stand beside them, for clients send whole joint_states.

    Raises:
        RequestRejected: for lengths that differ, a position that is not finite, or names of which
            none is known.
    """
    joints = state.joint_state
    if len(joints.name) != len(joints.position):
        raise RequestRejected(
            MoveItErrorCodes.INVALID_ROBOT_STATE,
            f"{what} has {len(joints.name)} joint names and {len(joints.position)} positions",
        )
    values = {
        name: float(position)
        for name, position in zip(joints.name, joints.position, strict=True)
        if name in known
    }
    if joints.name and not values:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_ROBOT_STATE,
            f"{what} names {', '.join(joints.name[:10])}, none of which the robot has."
            f"{did_you_mean(joints.name[0], known)}",
        )
    for name, value in values.items():
        if not math.isfinite(value):
            raise RequestRejected(
                MoveItErrorCodes.INVALID_ROBOT_STATE, f"{what} has {name} at {value}; not finite"
            )
        if not JOINT_STATE.allows(value):
            raise RequestRejected(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                f"{what} has {name} at {value:.6g}; allowed is {JOINT_STATE.text()}",
            )
    return values


def fill_robot_state(state: RobotState, joints: Mapping[str, float]) -> None:
    """Write joint positions into a robot state."""
    state.joint_state.name = list(joints)
    state.joint_state.position = list(joints.values())


def seconds_of(duration: Any, what: str) -> float:
    """Return a duration [s], nanoseconds and all; 0 stands for the server's default.

    Raises:
        RequestRejected: for a negative one.
    """
    seconds = float(duration.sec + 1e-9 * duration.nanosec)
    if seconds < 0.0:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            f"{what} is {seconds:g} s; give a positive time, or 0 for the default",
        )
    return seconds
