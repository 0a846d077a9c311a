# SPDX-License-Identifier: Apache-2.0
"""Messages of clients that name mimic joints, with these replaced by their leaders.

A message without mimic joints is returned unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.control.trajectory_follower import ToleranceRequest
from motion_nodes.core.robot.bounds import NAMES, POINTS, check_count
from motion_nodes.core.robot.mimic_joints import COMMANDED, NamedJoints
from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.errors import InvalidCommand

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
    return JointTrajectory(header=message.header, joint_names=list(joints.names), points=points)


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
