# SPDX-License-Identifier: Apache-2.0
"""Position and orientation constraints of moveit_msgs to poses with tolerances."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose
from moveit_msgs.msg import OrientationConstraint
from numpy.typing import NDArray
from shape_msgs.msg import SolidPrimitive

from motion_nodes.ik.problem import IkTolerance
from motion_nodes.model.poses import rotation_about
from motion_nodes.planning.planning_problem import PoseGoal
from motion_nodes.ros.messages.goal_context import GoalContext, refused
from motion_nodes.ros.messages.moveit_messages import pose_of

Array = NDArray[np.float64]

LEAST_TOLERANCE = 1e-6
"""[m or rad] What a tolerance of 0 is taken for."""
SMALL_REGION, SMALL_TURN, MIDDLE = 0.01, 0.1, 0.01
"""[m], [rad], share: tolerances that are smaller are meant for where the robot comes to rest, which
is beside where it was led; so of them only so much is used, and the rest is left to control."""
ALIGNED = 1e-3
"""[rad] Axes of a box that are turned by less than this against those of the goal are the same."""

# Tried in turn: how much of the tolerances is used where they are given as Euler angles.
SHARES = (1.0, 0.999, 0.99, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2, 0.1)


def pose_goals(places: Sequence[Any], turns: Sequence[Any], context: GoalContext) -> list[PoseGoal]:
    """Return a goal for each region that a position constraint gives (a region is any of them).

    Raises:
        RequestRejected: for more than one constraint of a kind, two links, or a region that has no
            inside.
    """
    for what, given in (("position", places), ("orientation", turns)):
        if len(given) > 1:
            raise refused(
                f"{len(given)} {what} constraints are to hold at once; one is understood "
                "(alternatives are separate goal_constraints)"
            )
    named = {context.link(part.link_name) for part in (*places, *turns)}
    if len(named) > 1:
        raise refused(
            f"the position of one link and the orientation of another are to hold at once: "
            f"{', '.join(sorted(named))}; give both for one link"
        )
    link = named.pop()
    R_BT, orientation = orientation_of(turns[0], context) if turns else (None, math.inf)
    if not places:
        assert R_BT is not None
        X_BT = context.frames.pose(link, context.q).copy()
        X_BT[:3, :3] = R_BT
        return [PoseGoal(link, X_BT, _tolerance(math.inf, orientation))]
    offset = _offset(places[0])
    goals = []
    for X_BR, size in _regions(places[0], context):
        X_BT = X_BR.copy()
        if R_BT is not None:
            X_BT[:3, :3] = R_BT
            size = _turned(size, R_BT.T @ X_BR[:3, :3], context)
        goals.append(PoseGoal(link, X_BT, _tolerance(size, orientation), offset))
    return goals


def _tolerance(position: Any, orientation: Any) -> IkTolerance:
    if np.isinf(np.atleast_1d(position)).all() and np.isinf(np.atleast_1d(orientation)).all():
        raise refused("its tolerances leave everything free: any pose fulfils it")
    return IkTolerance(_aimed(position, SMALL_REGION), _aimed(orientation, SMALL_TURN))


def _aimed(tolerance: Any, small: float) -> Any:
    """Return a tolerance, or less of it where it is small."""
    if isinstance(tolerance, tuple):
        return tuple(_aimed(one, small) for one in tolerance)
    return max(MIDDLE * tolerance, LEAST_TOLERANCE) if tolerance <= small else tolerance


def _offset(constraint: Any) -> Array | None:
    offset = constraint.target_point_offset
    point = np.array([offset.x, offset.y, offset.z])
    if not np.isfinite(point).all():
        raise refused(f"target_point_offset is not finite: {point.tolist()}")
    if not point.any():
        return None
    X_LT = np.eye(4)
    X_LT[:3, 3] = point
    return X_LT


def orientation_of(constraint: Any, context: GoalContext) -> tuple[Array, Any]:
    """Return the rotation wanted in the base, and the tolerances of its axes [rad]."""
    pose = Pose(orientation=constraint.orientation)
    X_FT, note = pose_of(pose, "the orientation constraint")
    if note:
        context.notes.append(note)
    X_BF = context.frames.pose(constraint.header.frame_id, context.q)
    tolerances = (
        constraint.absolute_x_axis_tolerance,
        constraint.absolute_y_axis_tolerance,
        constraint.absolute_z_axis_tolerance,
    )
    if any(math.isnan(t) or t < 0.0 for t in tolerances):
        raise refused(f"orientation tolerances must not be negative: {tolerances}")
    known = (OrientationConstraint.XYZ_EULER_ANGLES, OrientationConstraint.ROTATION_VECTOR)
    if constraint.parameterization not in known:
        raise refused(
            f"parameterization {constraint.parameterization} of an orientation constraint is not "
            "known; 0 is Euler angles, 1 is the rotation vector"
        )
    euler = constraint.parameterization == OrientationConstraint.XYZ_EULER_ANGLES
    return X_BF[:3, :3] @ X_FT[:3, :3], rotation_vector_bounds(tolerances, euler)


@functools.lru_cache(maxsize=64)
def rotation_vector_bounds(
    tolerances: tuple[float, float, float], euler: bool
) -> tuple[float, float, float]:
    """Return bounds of a rotation vector's components that keep orientation tolerances.

    Args:
        tolerances: about x, y and z [rad]; pi or more leaves an axis free.
        euler: they bound intrinsic angles about x, y, z instead of the vector itself. The two agree
            for small angles; for large ones as much of the tolerances is used as keeps within.

    Returns:
        Bounds [rad], infinite for a free axis.
    """
    asked = [math.inf if t >= math.pi else max(t, LEAST_TOLERANCE) for t in tolerances]
    if not euler or all(map(math.isinf, asked)):
        return asked[0], asked[1], asked[2]
    steps = np.linspace(-1.0, 1.0, 9)
    grid = np.array(list(itertools.product(steps, repeat=3)))
    for share in SHARES:
        bounds = [t if math.isinf(t) else share * t for t in asked]
        vectors = grid * [math.pi if math.isinf(b) else b for b in bounds]
        angles = _euler_angles(vectors[np.linalg.norm(vectors, axis=1) <= math.pi])
        if (np.abs(angles) <= np.array(asked) * (1.0 + 1e-9)).all():
            break
    return bounds[0], bounds[1], bounds[2]


def _euler_angles(vectors: Array) -> Array:
    """Return the intrinsic x, y, z angles of rotation vectors, both of shape (m, 3)."""
    angle = np.linalg.norm(vectors, axis=1)
    safe = np.where(angle > 0.0, angle, 1.0)
    axis = np.where(angle[:, None] > 0.0, vectors / safe[:, None], [1.0, 0.0, 0.0])
    R = rotation_about(axis, angle)
    y = np.arcsin(np.clip(R[:, 0, 2], -1.0, 1.0))
    return np.stack(
        [np.arctan2(-R[:, 1, 2], R[:, 2, 2]), y, np.arctan2(-R[:, 0, 1], R[:, 0, 0])], axis=1
    )


def _regions(constraint: Any, context: GoalContext) -> list[tuple[Array, Any]]:
    """Return the pose in the base and the size of each primitive of a region.

    The size is a radius, or half the lengths along the region's axes [m].
    """
    region = constraint.constraint_region
    if region.meshes:
        raise refused("regions of a position constraint that are meshes are not understood")
    if not region.primitives:
        raise refused("the region of a position constraint holds no primitives")
    if len(region.primitive_poses) > len(region.primitives):
        raise refused(
            f"the region of a position constraint has {len(region.primitives)} primitives and "
            f"{len(region.primitive_poses)} poses"
        )
    X_BF = context.frames.pose(constraint.header.frame_id, context.q)
    found = []
    for i, primitive in enumerate(region.primitives):
        X_FR = np.eye(4)
        if i < len(region.primitive_poses):
            X_FR, note = pose_of(region.primitive_poses[i], "the region of a position constraint")
            if note:
                context.notes.append(note)
        found.append((X_BF @ X_FR, _size(primitive, context)))
    return found


def _size(primitive: Any, context: GoalContext) -> Any:
    lengths = [float(length) for length in primitive.dimensions]
    wanted = {SolidPrimitive.SPHERE: 1, SolidPrimitive.BOX: 3, SolidPrimitive.CYLINDER: 2}
    if primitive.type not in wanted:
        raise refused(
            f"a region of type {primitive.type} is not understood; box (1), sphere (2) and "
            "cylinder (3) are"
        )
    if len(lengths) != wanted[primitive.type] or not all(
        math.isfinite(length) and length >= 0.0 for length in lengths
    ):
        raise refused(
            f"a region of type {primitive.type} needs {wanted[primitive.type]} dimensions that are "
            f"not negative; it has {lengths}"
        )
    if primitive.type == SolidPrimitive.SPHERE:
        return max(lengths[0], LEAST_TOLERANCE)
    if primitive.type == SolidPrimitive.BOX:
        half = [0.5 * length for length in lengths]
    else:
        height, radius = lengths
        half = [radius / math.sqrt(2.0), radius / math.sqrt(2.0), 0.5 * height]
        context.notes.append("of a cylinder as region, the box that fits inside it is used")
    return tuple(max(length, LEAST_TOLERANCE) for length in half)


def _turned(size: Any, R_TR: Array, context: GoalContext) -> Any:
    """Return a region's size along the axes of the goal, in which tolerances are given."""
    if isinstance(size, float):
        return size
    along = np.round(np.abs(R_TR))
    if np.abs(np.abs(R_TR) - along).max() < ALIGNED and (along.sum(axis=0) == 1.0).all():
        return tuple((along @ np.array(size)).tolist())
    context.notes.append(
        "the region is turned against the orientation wanted: the ball that fits inside it is used"
    )
    return float(min(size))
