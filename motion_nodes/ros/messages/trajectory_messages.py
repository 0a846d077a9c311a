# SPDX-License-Identifier: Apache-2.0
"""Trajectories, waypoints and tolerances of the core from messages.

Mimic joints in messages are replaced by their leaders.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from trajectory_msgs.msg import JointTrajectory as JointTrajectoryMessage
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.control.active_trajectories import ToleranceRequest
from motion_nodes.core.robot.bounds import (
    ACCELERATION,
    DURATION,
    EFFORT,
    JOINT_POSITION,
    NAMES,
    POINTS,
    VELOCITY,
    check_count,
)
from motion_nodes.core.robot.configurations import COMMANDED, NamedJoints
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.core.trajectory.joint_path import checked_waypoints
from motion_nodes.core.trajectory.joint_trajectory import (
    JointTrajectory,
    TrajectorySample,
    integrated,
    spline_velocities,
)
from motion_nodes.core.trajectory.trajectory_checks import check_point_count, joint_order
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.cdr import LITTLE_ENDIAN, CdrReader, InvalidMessage
from motion_nodes.typing import Array

BOUNDS = {
    "positions": JOINT_POSITION,
    "velocities": VELOCITY,
    "accelerations": ACCELERATION,
    "effort": EFFORT,
}
"""Bounds of the values of each channel."""

END_VELOCITY = float(np.finfo(np.float32).eps)
"""Velocity of a last point up to which it rests, as in ros2_controllers [rad/s or m/s]."""

MAX_BYTES = 32_000_000
"""Max size of a serialized trajectory: 100 000 points of twelve joints in three channels."""

CHUNK = 500
"""Number of points that are converted or freed at once, while the GIL is held."""


def seconds(duration: Any) -> float:
    """Return a builtin_interfaces Duration or Time [s]."""
    return float(duration.sec) + 1e-9 * float(duration.nanosec)


def fill_seconds(duration: Any, value: float) -> None:
    """Set a builtin_interfaces Duration or Time; negative values become 0.

    Args:
        duration: the message.
        value: [s].
    """
    # Rounded down, so that the nanoseconds never reach a full second.
    fraction, whole = math.modf(max(value, 0.0))
    duration.sec, duration.nanosec = int(whole), int(fraction * 1e9)


def size_fault(data: bytes) -> str:
    """Return why a serialized JointTrajectory is too large to be deserialized; empty if it is not.

    rclpy holds the GIL meanwhile, so a very large message would stall all loops of the process.
    """
    if len(data) > MAX_BYTES:
        return f"the message has {len(data)} bytes; allowed are {MAX_BYTES}"
    if not data.startswith(LITTLE_ENDIAN):
        return ""
    reader = CdrReader(data)
    try:
        reader.stamp_ns()
        reader.skip_string()
        reader.texts()
        reader.count(POINTS)
    except InvalidMessage as error:
        return str(error)
    except (struct.error, ValueError):
        return "the message is truncated"
    return ""


@dataclass(frozen=True)
class TrajectoryRules:
    """What a controller accepts in trajectories beyond positions with their derivatives."""

    efforts: bool = False
    """Whether points may have efforts."""
    end_velocity: bool = True
    """Whether the last point may have a velocity."""
    partial: bool = True
    """Whether joints of the controller may be omitted."""
    stepped: bool = False
    """Whether the points are targets without interpolation."""
    start: Callable[[tuple[str, ...]], TrajectorySample] | None = None
    """Returns the reference of joints, from which points without positions are integrated; None:
    points need positions."""
    upsampling: float | None = None
    """Points with nothing but positions are connected by a spline; without times they have this
    rate [Hz], if it is above 0. None: neither."""


def trajectory_from(
    message: Any, joint_names: Sequence[str], rules: TrajectoryRules | None = None
) -> JointTrajectory:
    """Return the trajectory in a trajectory_msgs/JointTrajectory.

    Args:
        message: a trajectory of some or all of the controller's joints, in any order.
        joint_names: the controller's joints.
        rules: of the controller.

    Raises:
        InvalidCommand: an invalid trajectory; names joint and point.
        UnknownJoint: a joint that the controller does not have.
    """
    rules = rules or TrajectoryRules()
    joint_order(message.joint_names, joint_names)
    points, names = message.points, tuple(message.joint_names)
    check_point_count(len(points))
    missing = [name for name in joint_names if name not in names]
    if missing and not rules.partial:
        raise InvalidCommand(
            f"the trajectory omits {', '.join(missing)}; allow_partial_joints_goal is false"
        )
    times = np.array([seconds(point.time_from_start) for point in points])
    DURATION.check(times, "time_from_start of point")
    positions, velocities, accelerations, efforts = (
        _channel(points, channel, names) for channel in BOUNDS
    )
    if efforts is not None and not rules.efforts:
        raise InvalidCommand(
            "points have efforts, which are feed-forward of the command interface effort; set "
            "command_interfaces to [effort] or [position, effort], or leave them out"
        )
    if positions is not None and rules.upsampling is not None:
        if velocities is None and accelerations is None:
            if rules.upsampling > 0.0 and not times.any():
                times = np.arange(1, len(times) + 1) / rules.upsampling
            if (np.diff(times) > 0.0).all():
                velocities = spline_velocities(times, positions)
    elif positions is None:
        if rules.start is None or (velocities is None and accelerations is None):
            raise InvalidCommand(
                "point 0 has no positions; velocities alone are integrated with "
                "allow_integration_in_goal_trajectories"
            )
        if not (times[0] >= 0.0 and (np.diff(times) > 0.0).all()):
            raise InvalidCommand("times of points without positions must increase", field="times")
        positions, velocities = integrated(times, rules.start(names), velocities, accelerations)
    if velocities is not None and not rules.end_velocity:
        moving = np.abs(velocities[-1]) > END_VELOCITY
        if moving.any():
            j = int(np.argmax(moving))
            raise InvalidCommand(
                f"velocity {velocities[-1, j]:.4g} of joint {names[j]} at the last point is not 0; "
                "allow_nonzero_velocity_at_trajectory_end is false",
                field=names[j],
            )
    return JointTrajectory(
        names, times, positions, velocities, accelerations, efforts, rules.stepped
    )


def _channel(points: Sequence[Any], channel: str, names: tuple[str, ...]) -> Array | None:
    """Return one channel of all points, shape (m, n); None if no point has it."""
    rows = [getattr(point, channel) for point in points]
    if not any(len(row) for row in rows):
        return None
    for i, row in enumerate(rows):
        if len(row) != len(names):
            had = "no" if len(row) == 0 else str(len(row))
            raise InvalidCommand(
                f"point {i} has {had} {channel} for {len(names)} joints ({', '.join(names)}); "
                "give one for each joint, at all points or at none"
            )
    # In chunks, so that a control loop in another thread can run in between.
    chunks = [np.array(rows[i : i + CHUNK], dtype=np.float64) for i in range(0, len(rows), CHUNK)]
    values = np.concatenate(chunks)
    BOUNDS[channel].check(values, channel, names)
    return values


def drop_points(message: Any) -> None:
    """Free the points of a message, in chunks.

    Python frees a long list at once while it holds the GIL, which would delay control loops in
    other threads.
    """
    while message.points:
        del message.points[-CHUNK:]


def tolerance_requests(messages: Sequence[Any]) -> list[ToleranceRequest]:
    """Return the tolerance requests in a list of control_msgs/JointTolerance."""
    return [ToleranceRequest(m.name, float(m.position), float(m.velocity)) for m in messages]


def waypoints_of(request: Any, robot: Robot) -> tuple[tuple[str, ...], Array]:
    """Return joints and waypoints [rad or m], shape (m, n), of a MotionPlanRequest.

    Args:
        request: with points of a reference trajectory, or rows of joint constraints.
        robot: with the joints; mimic joints are replaced by their leaders.

    Raises:
        InvalidCommand: none or both are given, or the waypoints are invalid.
    """
    given = [t for r in request.reference_trajectories for t in r.joint_trajectory]
    rows = request.trajectory_constraints.constraints
    if len(given) + bool(rows) != 1:
        raise InvalidCommand(
            "give the waypoints once: as the points of reference_trajectories[0]."
            "joint_trajectory[0], or as joint constraints in trajectory_constraints; "
            f"{len(given)} trajectories and {len(rows)} constraints were given"
        )
    if given:
        names, points, _ = points_of(given[0], robot)
        return names, points
    check_point_count(len(rows))
    named = NamedJoints(robot.tree, names := tuple(c.joint_name for c in rows[0].joint_constraints))
    joint_order(named.names if not named.twice else names, robot.arm_joints)
    values = []
    for i, row in enumerate(rows):
        found = {c.joint_name: c.position for c in row.joint_constraints}
        if set(found) != set(names) or len(row.joint_constraints) != len(names):
            raise InvalidCommand(
                f"constraint {i} names {', '.join(found) or 'no joints'}; each must name "
                f"{', '.join(names)} once"
            )
        values.append([found[name] for name in names])
    points = named.positions(values)
    return named.names, checked_waypoints(points, named.names, least=2)


def points_of(message: Any, robot: Robot) -> tuple[tuple[str, ...], Array, Array]:
    """Return joints, positions (m, n) [rad or m] and times (m,) [s] of a JointTrajectory.

    Args:
        message: trajectory_msgs/JointTrajectory.
        robot: with the joints; mimic joints are replaced by their leaders.

    Raises:
        InvalidCommand: unknown joints, or an invalid point.
    """
    message = leader_trajectory(message, robot.tree)
    joint_order(message.joint_names, robot.arm_joints)
    check_point_count(len(message.points))
    names = tuple(message.joint_names)
    for i, point in enumerate(message.points):
        if len(point.positions) != len(names):
            raise InvalidCommand(
                f"point {i} has {len(point.positions)} positions for {len(names)} joints"
            )
    rows = [point.positions for point in message.points]
    times = np.array([seconds(point.time_from_start) for point in message.points])
    return names, checked_waypoints(rows, names, least=2), times


_CHUNK = 512
"""Points that are converted at once, so that control loops in other threads run in between."""


def leader_trajectory(message: Any, tree: KinematicTree) -> Any:
    """Return a trajectory of the leaders alone.

    Args:
        message: trajectory_msgs/JointTrajectory.
        tree: the robot.

    Raises:
        InvalidCommand: a mimic joint disagrees with its leader, a joint is named twice, or a point
            has a wrong number of values.
    """
    check_count(len(message.joint_names), NAMES, "joint_names")
    joints = NamedJoints(tree, message.joint_names)
    if joints.trivial:
        return message
    if joints.twice:
        raise InvalidCommand(f"the trajectory names joint {', '.join(joints.twice)} more than once")
    check_count(len(message.points), POINTS, "points")
    points: list[Any] = []
    for first in range(0, len(message.points), _CHUNK):
        points += _leader_points(message.points[first : first + _CHUNK], joints, first)
    return JointTrajectoryMessage(
        header=message.header, joint_names=list(joints.names), points=points
    )


def _leader_points(points: Sequence[Any], joints: NamedJoints, first: int) -> list[Any]:
    converted = [JointTrajectoryPoint(time_from_start=p.time_from_start) for p in points]
    for channel, reduce in (
        ("positions", joints.positions),
        ("velocities", joints.rates),
        ("accelerations", joints.rates),
        ("effort", joints.efforts),
    ):
        for i, (point, result) in enumerate(zip(points, converted, strict=True)):
            values = getattr(point, channel)
            if not len(values):
                continue
            if len(values) != len(joints.given):
                raise InvalidCommand(
                    f"point {first + i} has {len(values)} {channel} for {len(joints.given)} "
                    f"joints ({', '.join(joints.given)})"
                )
            try:
                setattr(result, channel, reduce(values).tolist())
            except InvalidCommand as error:
                raise InvalidCommand(f"{channel} of point {first + i}: {error}") from None
    return converted


def leader_tolerances(
    requests: Sequence[ToleranceRequest], tree: KinematicTree
) -> list[ToleranceRequest]:
    """Return tolerances of the leaders alone; those of mimic joints are scaled by the multiplier.

    Args:
        requests: tolerances of joints by name.
        tree: the robot.
    """
    own = [request for request in requests if _mimic(tree, request.joint) is None]
    named = {request.joint for request in own}
    for request in requests:
        law = _mimic(tree, request.joint)
        # A mimic joint follows exactly: the leader's own tolerance holds.
        if law is not None and law.joint not in named:
            named.add(law.joint)
            factor = 1.0 / abs(law.multiplier)
            scaled = [v * factor if v > 0.0 else v for v in (request.position, request.velocity)]
            own.append(ToleranceRequest(law.joint, *scaled))
    return own


def _mimic(tree: KinematicTree, name: str) -> Any:
    joint = tree.joints.get(name)
    return None if joint is None else joint.mimic


@dataclass(frozen=True)
class LeaderConstraint:
    """Constraint of a leader; fields as of moveit_msgs/JointConstraint."""

    joint_name: str
    position: float
    tolerance_above: float
    tolerance_below: float
    weight: float = 1.0


def leader_constraints(constraints: Sequence[Any], tree: KinematicTree) -> list[Any]:
    """Return joint constraints of the leaders alone.

    Args:
        constraints: list of moveit_msgs/JointConstraint.
        tree: the robot.

    Raises:
        InvalidCommand: a mimic joint's constraint that no position of its leader's satisfies, with
            both values.
    """
    found = [given for given in constraints if _mimic(tree, given.joint_name) is None]
    first = {given.joint_name: given for given in reversed(found)}
    stated = {name: given for name, given in first.items()}
    for given in constraints:
        law = _mimic(tree, given.joint_name)
        if law is None:
            continue
        above = given.tolerance_above / law.multiplier
        below = given.tolerance_below / law.multiplier
        if law.multiplier < 0.0:
            above, below = -below, -above
        mapped = LeaderConstraint(
            law.joint, law.leader_value(given.position), above, below, given.weight
        )
        leader = first.setdefault(law.joint, mapped)
        if leader is not mapped:
            _check_agreement(given, mapped, leader, stated.get(law.joint, leader), tree)
        stated.setdefault(law.joint, given)
        if leader is mapped or _common(mapped, leader):
            found.append(mapped)
    return found


def _check_agreement(
    given: Any, mapped: LeaderConstraint, leader: Any, stated: Any, tree: KinematicTree
) -> None:
    """Reject a constraint that the leader's contradicts; rounding is allowed."""
    numbers = (
        *(given.position, given.tolerance_above, given.tolerance_below),
        *(leader.position, leader.tolerance_above, leader.tolerance_below),
    )
    if not all(map(math.isfinite, numbers)):
        return  # for the caller to reject
    joint = tree.joints[given.joint_name]
    slides = joint.kind is JointKind.PRISMATIC
    slack = (COMMANDED.length if slides else COMMANDED.angle) / abs(joint.law.multiplier)
    apart = max(
        mapped.position - mapped.tolerance_below - leader.position - leader.tolerance_above,
        leader.position - leader.tolerance_below - mapped.position - mapped.tolerance_above,
    )
    if apart > slack:
        raise InvalidCommand(
            f"{given.joint_name} is given as {given.position:.6g}, but {stated.joint_name} as "
            f"{stated.position:.6g}: {given.joint_name} mimics {mapped.joint_name} and is at "
            f"{joint.law.multiplier * leader.position + joint.law.offset:.6g} then. Give values "
            f"that agree, or {mapped.joint_name} alone."
        )


def _common(a: Any, b: Any) -> bool:
    """Return whether the intervals of two constraints have a point in common."""
    lower = max(a.position - a.tolerance_below, b.position - b.tolerance_below)
    upper = min(a.position + a.tolerance_above, b.position + b.tolerance_above)
    return bool(lower <= upper) or not np.isfinite([lower, upper]).all()
