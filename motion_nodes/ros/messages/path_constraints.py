# SPDX-License-Identifier: Apache-2.0
"""Constraints along a path from moveit_msgs/Constraints.

Unsupported or contradictory constraints are rejected with a reason; none is ignored silently.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from moveit_msgs.msg import OrientationConstraint, VisibilityConstraint
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.planning.constrained.path_constraints import (
    JointBand,
    LineOfSight,
    PathConstraint,
    RegionUnion,
    TaskSpaceRegion,
)
from motion_nodes.core.robot.poses import inverse, rotation_about
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.goal_constraints import (
    GoalContext,
    joint_interval,
    of_leaders,
    orientation_of,
    orientation_tolerances,
    refused,
    region_primitives,
    target_offset,
)
from motion_nodes.ros.messages.moveit_messages import pose_of
from motion_nodes.typing import Array

_PARAMETERIZATIONS = {
    OrientationConstraint.XYZ_EULER_ANGLES: "euler_xyz",
    OrientationConstraint.ROTATION_VECTOR: "rotation_vector",
}
_SHAPES = {
    SolidPrimitive.BOX: "box",
    SolidPrimitive.SPHERE: "ball",
    SolidPrimitive.CYLINDER: "cylinder",
}
_VIEW_AXES = {
    VisibilityConstraint.SENSOR_Z: np.eye(3),
    VisibilityConstraint.SENSOR_Y: rotation_about(
        np.array([1.0, 0.0, 0.0]), np.array(-math.pi / 2)
    ),
    VisibilityConstraint.SENSOR_X: rotation_about(np.array([0.0, 1.0, 0.0]), np.array(math.pi / 2)),
}
"""Rotation of a sensor's frame that aligns its view direction with z."""


def is_constrained(along: Any) -> bool:
    """Return whether the ``path_constraints`` of a request contain any constraint."""
    return bool(
        along.joint_constraints
        or along.position_constraints
        or along.orientation_constraints
        or along.visibility_constraints
    )


def path_constraints_of(along: Any, context: GoalContext) -> tuple[PathConstraint, ...]:
    """Return the constraints of a path; those that every path satisfies are omitted.

    Args:
        along: the ``path_constraints`` of a request.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: names the invalid or unsupported constraint.
    """
    try:
        return (
            *_joint_bands(along.joint_constraints, context),
            *(_position(part, context) for part in along.position_constraints),
            *_orientations(along.orientation_constraints, context),
            *(_sight(part, context) for part in along.visibility_constraints),
        )
    except InvalidCommand as error:
        raise refused(f"path_constraints: {error}") from None


def _joint_bands(constraints: Any, context: GoalContext) -> list[JointBand]:
    bands, limits = [], context.group.limits
    for constraint in of_leaders(constraints, context.robot):
        lower, upper = joint_interval(constraint, context)
        if constraint.joint_name not in context.group.joints:
            continue
        i = context.group.joints.index(constraint.joint_name)
        if lower > limits.lower[i] or upper < limits.upper[i]:
            name = f"joint constraint of {constraint.joint_name}"
            bands.append(JointBand(constraint.joint_name, lower, upper, name))
    return bands


def _position(constraint: Any, context: GoalContext) -> PathConstraint:
    link, X_LF = context.target(constraint.link_name)
    name = f"position constraint of {constraint.link_name or link}"
    reference, X_RB = _reference(constraint.header.frame_id, link, name, context)
    offset = target_offset(constraint, X_LF)
    regions = tuple(
        replace(_region(link, X_RB @ X_BR, primitive, offset, name), reference_link=reference)
        for X_BR, primitive in region_primitives(constraint, context)
    )
    return regions[0] if len(regions) == 1 else RegionUnion(regions, name)


def _region(
    link: str, X_BR: Array, primitive: Any, offset: Array | None, name: str
) -> TaskSpaceRegion:
    sizes = [float(size) for size in primitive.dimensions]
    if primitive.type == SolidPrimitive.BOX:
        half = [0.5 * size for size in sizes]
    elif primitive.type == SolidPrimitive.SPHERE:
        half = [sizes[0], math.inf, math.inf]
    else:
        half = [sizes[1], math.inf, 0.5 * sizes[0]]
    upper = (*half, math.inf, math.inf, math.inf)
    lower = tuple(-size for size in upper)
    return TaskSpaceRegion(
        link, X_BR, lower, upper, offset, shape=_SHAPES[primitive.type], name=name
    )


def _orientations(constraints: Any, context: GoalContext) -> list[TaskSpaceRegion]:
    regions = []
    for constraint in constraints:
        R_BT, _ = orientation_of(constraint, context)
        tolerances = [
            math.inf if angle >= math.pi else angle for angle in orientation_tolerances(constraint)
        ]
        link, X_LF = context.target(constraint.link_name)
        name = f"orientation constraint of {constraint.link_name or link}"
        reference, X_RB = _reference(constraint.header.frame_id, link, name, context)
        if not all(map(math.isinf, tolerances)):
            rotation = _PARAMETERIZATIONS[constraint.parameterization]
            R_RT = X_RB[:3, :3] @ R_BT
            region = TaskSpaceRegion.rotation_within(link, R_RT, tolerances, rotation, name)
            regions.append(replace(region, X_LT=X_LF, reference_link=reference))
    return regions


def _sight(constraint: Any, context: GoalContext) -> LineOfSight:
    """Return the line of sight of a visibility constraint; its cone is not checked."""
    name = "visibility constraint"
    if constraint.sensor_view_direction not in _VIEW_AXES:
        raise refused(
            f"sensor_view_direction of a {name} is {constraint.sensor_view_direction}; allowed: 0 "
            "(z), 1 (y), 2 (x)"
        )
    angles = (constraint.max_view_angle, constraint.max_range_angle)
    if any(not math.isfinite(angle) or angle < 0.0 for angle in angles):
        raise refused(f"the angles of a {name} must be finite and not negative: {angles}")
    if not any(angles):
        raise refused(
            f"a {name} without max_view_angle and max_range_angle concerns occlusion alone, which "
            "is not supported"
        )
    context.notes.append(
        f"{name}: the angles hold along the path; occlusion of the target (target_radius, "
        "cone_sides) is not checked"
    )
    (sensor, X_sensor), (target, X_target) = (
        _stamped(pose, f"the {what} of a {name}", context)
        for what, pose in (("sensor", constraint.sensor_pose), ("target", constraint.target_pose))
    )
    X_sensor[:3, :3] = X_sensor[:3, :3] @ _VIEW_AXES[constraint.sensor_view_direction]
    if (sensor is None) == (target is None):
        moved = "neither" if sensor is None else "both"
        raise refused(
            f"a {name} needs one of sensor and target on a link that group "
            f"'{context.group.name}' moves; it moves {moved}"
        )
    view, range_angle = (angle or math.inf for angle in angles)
    if sensor is not None:
        return LineOfSight(sensor, X_sensor, X_target, True, view, range_angle, name)
    assert target is not None
    return LineOfSight(target, X_target, X_sensor, False, view, range_angle, name)


def _stamped(stamped: Any, what: str, context: GoalContext) -> tuple[str | None, Array]:
    """Return the link that carries a pose and the pose in it; None and the pose in the base."""
    X_FP, note = pose_of(stamped.pose, what)
    if note:
        context.notes.append(note)
    frame = stamped.header.frame_id
    if context.moves(frame):
        link, X_LF = context.carrier(frame)
        return link, X_FP if X_LF is None else X_LF @ X_FP
    return None, context.frames.pose(frame, context.q) @ X_FP


def _reference(frame: str, link: str, name: str, context: GoalContext) -> tuple[str, Array]:
    """Return the link that carries a reference frame, such as another tool, and the base in it.

    A frame that does not move along the path is one in the base: an empty name and the identity.

    Raises:
        RequestRejected: the frame is carried by the constrained link itself.
    """
    if not context.moves(frame):
        return "", np.eye(4)
    reference, _ = context.carrier(frame)
    if reference == link:
        raise refused(
            f"{name}: its frame '{frame}' moves with the constrained link; give the constraint in "
            f"another frame, such as '{context.robot.base_frame}'"
        )
    return reference, inverse(context.frames.pose(reference, context.q))
