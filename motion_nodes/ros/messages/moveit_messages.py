# SPDX-License-Identifier: Apache-2.0
"""moveit_msgs from and to arrays: poses, robot states, error codes.

Invalid messages raise :class:`RequestRejected`, which has one of MoveIt's error codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from geometry_msgs.msg import Pose
from moveit_msgs.msg import MoveItErrorCodes, RobotState

from motion_nodes.core.robot.bounds import JOINT_STATE, LENGTH, QUATERNION_NORM
from motion_nodes.core.robot.configurations import leader_values
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    MotionError,
    UnknownGroup,
    did_you_mean,
)
from motion_nodes.ros.messages.rotations import matrix_of, quaternion_of
from motion_nodes.typing import Array

UNIT_TOLERANCE = 1e-3
"""Max deviation of a quaternion's norm from 1 without a notice."""


class RequestRejected(MotionError):
    """A request that cannot be served, with one of MoveIt's error codes."""

    def __init__(self, code: int, text: str) -> None:
        """Create the error.

        Args:
            code: constant of MoveItErrorCodes.
            text: the reason.
        """
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


def answered(node: Any, error_code: Any, answer: Callable[[], str]) -> bool:
    """Answer a request of an active node, and fill the error code of the response.

    Args:
        node: the MotionNode.
        error_code: MoveItErrorCodes of the response.
        answer: fills the response, and returns a note for the client.

    Returns:
        Whether the request was answered; False if it was rejected.
    """
    try:
        require_active(node)
        note = answer()
    except RequestRejected as error:
        set_code(error_code, error.code, str(error), node.get_name())
        return False
    set_code(error_code, MoveItErrorCodes.SUCCESS, note, node.get_name())
    return True


def requested_group(robot: Robot, name: str) -> Group:
    """Return a planning group.

    Args:
        robot: the robot.
        name: name or alias of the group; groups and joints with ``+`` between them, in any order,
            such as ``left+right``; empty for the only group with a tip.

    Raises:
        RequestRejected: there is no such group, or the name is empty and groups are ambiguous.
    """
    if name:
        try:
            group = robot.group(name)
            # Messages name their joints, so the order of members has no meaning.
            first = {word: min(robot.group(word).indices) for word in group.members}
            return robot.group(sorted(first, key=first.__getitem__)) if first else group
        except (UnknownGroup, InvalidConfig) as error:
            raise RequestRejected(MoveItErrorCodes.INVALID_GROUP_NAME, str(error)) from None
    chains = [group for group in robot.groups.values() if group.tip is not None]
    if len(chains) != 1:
        names = ", ".join(group.name for group in chains) or "none"
        text = f"name a group; those with a tip: {names}"
        raise RequestRejected(MoveItErrorCodes.INVALID_GROUP_NAME, text)
    return chains[0]


def is_constrained(constraints: Any) -> bool:
    """Return whether moveit_msgs/Constraints, such as ``path_constraints``, contain any."""
    return bool(
        constraints.joint_constraints
        or constraints.position_constraints
        or constraints.orientation_constraints
        or constraints.visibility_constraints
    )


def set_code(message: MoveItErrorCodes, code: int, text: str = "", source: str = "") -> None:
    """Set the fields of an error code."""
    message.val, message.message, message.source = code, text, source


def pose_of(message: Pose, what: str) -> tuple[Array, str]:
    """Return a pose as a matrix.

    Args:
        message: the pose.
        what: its name, for errors.

    Returns:
        The pose, shape (4, 4), and a notice if the quaternion was normalized.

    Raises:
        RequestRejected: values that are not finite or beyond their bounds, or a quaternion that is
            not a rotation.
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
            f"{what} is {max(map(abs, position)):.3g} m away; positions are in metres, allowed "
            f"are {LENGTH.text()}",
        )
    length = math.hypot(*quaternion)
    min_norm, max_norm = QUATERNION_NORM
    if not min_norm <= length <= max_norm:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            f"{what} has the orientation {quaternion} of norm {length:.3g}, which is not a "
            f"rotation; allowed are norms of {min_norm:g} to {max_norm:g} (the identity is x y z w "
            "= 0 0 0 1)",
        )
    notice = ""
    if abs(length - 1.0) > UNIT_TOLERANCE:
        notice = f"the quaternion of {what} had norm {length:.6g} and was normalized"
    return matrix_of(position, quaternion), notice


def pose_message(X: Array) -> Pose:
    """Return a pose, shape (4, 4), as a message."""
    message = Pose()
    p, r = message.position, message.orientation
    p.x, p.y, p.z = X[:3, 3].tolist()
    r.x, r.y, r.z, r.w = quaternion_of(X)
    return message


def joint_values(state: RobotState, robot: Robot, what: str) -> dict[str, float]:
    """Return the positions of actuated joints in a robot state [rad or m], by name.

    Args:
        state: the robot state; joints of other robots are ignored. Mimic joints must agree with
            their leaders, or determine leaders that are not named.
        robot: the robot.
        what: name of the state, for errors.

    Raises:
        RequestRejected: arrays of different lengths, a position that is not finite or beyond its
            bounds, a mimic joint that disagrees with its leader, or no known joint.
    """
    known = robot.tree.joints
    joints = state.joint_state
    if len(joints.name) != len(joints.position):
        raise RequestRejected(
            MoveItErrorCodes.INVALID_ROBOT_STATE,
            f"{what} has {len(joints.name)} joint names and {len(joints.position)} positions",
        )
    values: dict[str, float] = {}
    for name, position in zip(joints.name, joints.position, strict=True):
        if name not in known or not known[name].movable:
            continue
        if name in values and values[name] != position:
            raise RequestRejected(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                f"{what} names {name} twice, at {values[name]:.6g} and at {position:.6g}",
            )
        values[name] = float(position)
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
    try:
        return leader_values(robot.tree, values, measured=True)
    except InvalidCommand as error:
        raise RequestRejected(MoveItErrorCodes.INVALID_ROBOT_STATE, f"{what}: {error}") from None


def fill_robot_state(state: RobotState, joints: Mapping[str, float]) -> None:
    """Write joint positions [rad or m] to a robot state."""
    state.joint_state.name = list(joints)
    state.joint_state.position = list(joints.values())


def bounded(value: float, most: float, what: str, notes: list[str]) -> float:
    """Return a time [s] or a max that replaces it, with a note.

    Args:
        value: time of a request [s].
        most: the max [s].
        what: its name, for the note.
        notes: for the client.
    """
    if value > most:
        notes.append(f"{what} is {value:g} s; {most:g} s is used, the max")
    return min(value, most)


def seconds_of(duration: Any, what: str) -> float:
    """Return a duration [s]; 0 stands for the server's default.

    Args:
        duration: builtin_interfaces/Duration.
        what: its name, for errors.

    Raises:
        RequestRejected: the duration is negative.
    """
    seconds = float(duration.sec + 1e-9 * duration.nanosec)
    if seconds < 0.0:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            f"{what} is {seconds:g} s; give a positive time, or 0 for the default",
        )
    return seconds
