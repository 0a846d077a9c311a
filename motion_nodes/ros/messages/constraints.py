# SPDX-License-Identifier: Apache-2.0
"""Constraints of MoveIt's messages: goals, and path constraints, of planning requests.

Unsupported or contradictory constraints are rejected with a reason; none is ignored silently.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose
from moveit_msgs.msg import MoveItErrorCodes, OrientationConstraint, VisibilityConstraint
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.ik.problem import IkTolerance
from motion_nodes.core.planning.path_constraints import (
    JointBand,
    LineOfSight,
    PathConstraint,
    RegionUnion,
    TaskSpaceRegion,
)
from motion_nodes.core.planning.planning_problem import Goal, JointGoal, PoseGoal, PosesGoal
from motion_nodes.core.robot.poses import inverse, rotation_about
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.errors import InvalidCommand, UnknownFrame, UnknownJoint
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of
from motion_nodes.ros.messages.trajectory_messages import leader_constraints
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array

MIN_TOLERANCE = 1e-6
"""[m or rad] Tolerance used in place of 0."""
SMALL_REGION, SMALL_ANGLE, GOAL_SHARE = 0.01, 0.1, 0.01
"""Tolerances below the first [m] or second [rad] are meant for the pose at rest, which differs from
the commanded one; planning uses this share of them and leaves the rest to control errors."""
ALIGNED = 1e-3
"""Max angle between the axes of a box and of the goal for which they count as equal [rad]."""
# Tried in order: share of tolerances in Euler angles that the rotation vector may use.
SHARES = (1.0, 0.999, 0.99, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2, 0.1)
Codes = MoveItErrorCodes
STATE_TOLERANCE = 1e-3
"""[rad or m] Tolerance of constraints on joints outside the planning group."""


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

    def goals(self, alternatives: Sequence[Any]) -> tuple[Goal, ...]:
        """Return the alternative goals in ``goal_constraints``.

        Args:
            alternatives: the constraints, of which one must be satisfied.

        Raises:
            RequestRejected: they are missing, empty, contradictory or unsupported.
        """
        if not alternatives:
            raise RequestRejected(
                Codes.INVALID_GOAL_CONSTRAINTS, "no goal: goal_constraints is empty"
            )
        goals: list[Goal] = []
        for number, constraints in enumerate(alternatives, start=1):
            try:
                goals += _goals(constraints, self)
            except RequestRejected as refusal:
                where = f"goal {number} of {len(alternatives)}: " if len(alternatives) > 1 else ""
                raise RequestRejected(refusal.code, f"{where}{refusal}") from None
        return tuple(goals)

    def path_constraints(self, along: Any) -> tuple[PathConstraint, ...]:
        """Return the constraints of a path; those that every path satisfies are omitted.

        Args:
            along: the ``path_constraints`` of a request.

        Raises:
            RequestRejected: names the invalid or unsupported constraint.
        """
        try:
            return (
                *_joint_bands(along.joint_constraints, self),
                *(_position(part, self) for part in along.position_constraints),
                *_orientations(along.orientation_constraints, self),
                *(_sight(part, self) for part in along.visibility_constraints),
            )
        except InvalidCommand as error:
            raise refused(f"path_constraints: {error}") from None

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

    def tool_speed(self, request: Any) -> tuple[str, float] | None:
        """Return the Cartesian speed limit of a request.

        Returns:
            Link and max speed [m/s]; None without a limit.

        Raises:
            RequestRejected: unknown link, or a speed that is not finite and positive.
        """
        speed = request.max_cartesian_speed
        if speed == 0.0:
            return None
        if not (math.isfinite(speed) and speed > 0.0):
            raise RequestRejected(
                Codes.INVALID_MOTION_PLAN,
                f"max_cartesian_speed is {speed} m/s; give one above 0, or 0 for no limit",
            )
        return self.link(request.cartesian_speed_limited_link), speed

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


def pose_goals(
    positions: Sequence[Any], orientations: Sequence[Any], context: GoalContext
) -> list[PoseGoal | PosesGoal]:
    """Return the alternative goals, one for each combination of primitives of the regions.

    Args:
        positions: list of PositionConstraint.
        orientations: list of OrientationConstraint.
        context: robot, group and state of the request.

    Returns:
        Poses of one link, or of all links that are constrained, such as the tools of two arms.

    Raises:
        RequestRejected: more than one constraint of a kind for a link, or an invalid region.
    """
    parts: dict[str, tuple[list[Any], list[Any]]] = {}
    for which, given in enumerate((positions, orientations)):
        for constraint in given:
            name = context.frames.name_of(constraint.link_name or context.link(""))
            parts.setdefault(name, ([], []))[which].append(constraint)
    for name, found in parts.items():
        for what, given in zip(("position", "orientation"), found, strict=True):
            if len(given) > 1:
                raise refused(
                    f"{len(given)} {what} constraints of '{name}' in one goal; one is supported "
                    "(alternatives are separate goal_constraints)"
                )
    each = [_of_link(name, *found, context) for name, found in parts.items()]
    if len(each) == 1:
        return list(each[0])
    return [PosesGoal(poses) for poses in itertools.product(*each)]


def _of_link(
    name: str, positions: Sequence[Any], orientations: Sequence[Any], context: GoalContext
) -> list[PoseGoal]:
    """Return the alternative goals of one link, with at most one constraint of each kind."""
    link, X_LF = context.target(name)
    R_BT, orientation = (
        orientation_of(orientations[0], context) if orientations else (None, math.inf)
    )
    if not positions:
        assert R_BT is not None
        X_BT = context.frames.pose(link, context.q).copy()
        X_BT[:3, :3] = R_BT
        return [PoseGoal(link, X_BT, _tolerance(math.inf, orientation), X_LF)]
    offset = target_offset(positions[0], X_LF)
    goals = []
    for X_BR, size in _regions(positions[0], context):
        X_BT = X_BR.copy()
        if R_BT is not None:
            X_BT[:3, :3] = R_BT
            size = _rotated(size, R_BT.T @ X_BR[:3, :3], context)
        goals.append(PoseGoal(link, X_BT, _tolerance(size, orientation), offset))
    return goals


def _tolerance(position: Any, orientation: Any) -> IkTolerance:
    if np.isinf(np.atleast_1d(position)).all() and np.isinf(np.atleast_1d(orientation)).all():
        raise refused("its tolerances are unlimited: any pose satisfies it")
    return IkTolerance(_narrowed(position, SMALL_REGION), _narrowed(orientation, SMALL_ANGLE))


def _narrowed(tolerance: Any, small: float) -> Any:
    """Return a tolerance, or :data:`GOAL_SHARE` of it if it is small."""
    if isinstance(tolerance, tuple):
        return tuple(_narrowed(one, small) for one in tolerance)
    return max(GOAL_SHARE * tolerance, MIN_TOLERANCE) if tolerance <= small else tolerance


def target_offset(constraint: Any, X_LF: Array | None = None) -> Array | None:
    """Return the constrained frame of a PositionConstraint in its link, (4, 4); None: its origin.

    Args:
        constraint: PositionConstraint.
        X_LF: the frame in the link that it constrains, shape (4, 4); None: that of the link.

    Raises:
        RequestRejected: it is not finite.
    """
    offset = constraint.target_point_offset
    point = np.array([offset.x, offset.y, offset.z])
    if not np.isfinite(point).all():
        raise refused(f"target_point_offset is not finite: {point.tolist()}")
    if not point.any():
        return X_LF
    X_FT = np.eye(4)
    X_FT[:3, 3] = point
    return X_FT if X_LF is None else X_LF @ X_FT


def orientation_of(constraint: Any, context: GoalContext) -> tuple[Array, Any]:
    """Return the target rotation in the base frame and its tolerances.

    Args:
        constraint: OrientationConstraint.
        context: robot, group and state of the request.

    Returns:
        Rotation, shape (3, 3), and bounds of the components of the rotation vector [rad].

    Raises:
        RequestRejected: an invalid orientation, tolerance or parameterization.
    """
    pose = Pose(orientation=constraint.orientation)
    X_FT, note = pose_of(pose, "the orientation constraint")
    if note:
        context.notes.append(note)
    X_BF = context.frames.pose(constraint.header.frame_id, context.q)
    tolerances = orientation_tolerances(constraint)
    if any(math.isnan(t) or t < 0.0 for t in tolerances):
        raise refused(f"orientation tolerances must not be negative: {tolerances}")
    known = (OrientationConstraint.XYZ_EULER_ANGLES, OrientationConstraint.ROTATION_VECTOR)
    if constraint.parameterization not in known:
        raise refused(
            f"parameterization {constraint.parameterization} of an orientation constraint is "
            "unknown; allowed are 0 (Euler angles) and 1 (rotation vector)"
        )
    euler = constraint.parameterization == OrientationConstraint.XYZ_EULER_ANGLES
    return X_BF[:3, :3] @ X_FT[:3, :3], rotation_vector_bounds(tolerances, euler)


def orientation_tolerances(constraint: Any) -> tuple[float, float, float]:
    """Return the tolerances of an OrientationConstraint about x, y and z [rad]."""
    return (
        constraint.absolute_x_axis_tolerance,
        constraint.absolute_y_axis_tolerance,
        constraint.absolute_z_axis_tolerance,
    )


@functools.lru_cache(maxsize=64)
def rotation_vector_bounds(
    tolerances: tuple[float, float, float], euler: bool
) -> tuple[float, float, float]:
    """Return bounds of a rotation vector's components that satisfy orientation tolerances.

    Args:
        tolerances: tolerances about x, y and z [rad]; pi or more leaves an axis free.
        euler: whether they bound intrinsic angles about x, y, z instead of the rotation vector. The
            two agree for small angles; for large ones the bounds are scaled down.

    Returns:
        Bounds [rad], infinite for a free axis.
    """
    limits = [math.inf if t >= math.pi else max(t, MIN_TOLERANCE) for t in tolerances]
    if not euler or all(map(math.isinf, limits)):
        return limits[0], limits[1], limits[2]
    steps = np.linspace(-1.0, 1.0, 9)
    grid = np.array(list(itertools.product(steps, repeat=3)))
    for share in SHARES:
        bounds = [t if math.isinf(t) else share * t for t in limits]
        vectors = grid * [math.pi if math.isinf(b) else b for b in bounds]
        angles = _euler_angles(vectors[np.linalg.norm(vectors, axis=1) <= math.pi])
        if (np.abs(angles) <= np.array(limits) * (1.0 + 1e-9)).all():
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
    """Return the pose in the base frame and the size of each primitive of a region.

    The size is a radius, or half the lengths along the primitive's axes [m].
    """
    return [
        (X_BR, _size(primitive, context))
        for X_BR, primitive in region_primitives(constraint, context)
    ]


def region_primitives(constraint: Any, context: GoalContext) -> list[tuple[Array, Any]]:
    """Return pose in the base frame and SolidPrimitive of each part of a PositionConstraint.

    Args:
        constraint: PositionConstraint.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: an empty region, primitives without a pose, meshes, or primitives that are
            invalid or unsupported.
    """
    region = constraint.constraint_region
    if region.meshes or region.mesh_poses:
        raise refused(
            "meshes (and mesh_poses) as region of a position constraint are not supported"
        )
    if not region.primitives:
        raise refused("the region of a position constraint has no primitives")
    if len(region.primitive_poses) != len(region.primitives):
        # A primitive without a pose would be at the origin of the frame, maybe within an object.
        raise refused(
            f"the region of a position constraint has {len(region.primitives)} primitives and "
            f"{len(region.primitive_poses)} primitive_poses; give one pose for each primitive"
        )
    X_BF = context.frames.pose(constraint.header.frame_id, context.q)
    regions = []
    for i, primitive in enumerate(region.primitives):
        X_FR, note = pose_of(region.primitive_poses[i], "the region of a position constraint")
        if note:
            context.notes.append(note)
        _check_primitive(primitive)
        regions.append((X_BF @ X_FR, primitive))
    return regions


def _check_primitive(primitive: Any) -> None:
    lengths = [float(length) for length in primitive.dimensions]
    counts = {SolidPrimitive.SPHERE: 1, SolidPrimitive.BOX: 3, SolidPrimitive.CYLINDER: 2}
    if primitive.type not in counts:
        raise refused(
            f"a region of type {primitive.type} is not supported; allowed are box (1), sphere (2) "
            "and cylinder (3)"
        )
    if len(lengths) != counts[primitive.type] or not all(
        math.isfinite(length) and length >= 0.0 for length in lengths
    ):
        raise refused(
            f"a region of type {primitive.type} needs {counts[primitive.type]} dimensions that are "
            f"not negative; it has {lengths}"
        )


def _size(primitive: Any, context: GoalContext) -> Any:
    lengths = [float(length) for length in primitive.dimensions]
    if primitive.type == SolidPrimitive.SPHERE:
        return max(lengths[0], MIN_TOLERANCE)
    if primitive.type == SolidPrimitive.BOX:
        half = [0.5 * length for length in lengths]
    else:
        height, radius = lengths
        half = [radius / math.sqrt(2.0), radius / math.sqrt(2.0), 0.5 * height]
        context.notes.append("a cylindrical region is replaced by its inscribed box")
    return tuple(max(length, MIN_TOLERANCE) for length in half)


def _rotated(size: Any, R_TR: Array, context: GoalContext) -> Any:
    """Return a region's size along the axes of the goal, in which tolerances are given."""
    if isinstance(size, float):
        return size
    along = np.round(np.abs(R_TR))
    if np.abs(np.abs(R_TR) - along).max() < ALIGNED and (along.sum(axis=0) == 1.0).all():
        return tuple((along @ np.array(size)).tolist())
    context.notes.append(
        "a region that is not aligned with the target orientation is replaced by its inscribed "
        "sphere"
    )
    return float(min(size))


def _goals(constraints: Any, context: GoalContext) -> list[Goal]:
    if constraints.visibility_constraints:
        raise refused("visibility constraints are not supported")
    positions, orientations = constraints.position_constraints, constraints.orientation_constraints
    joints = joint_goal(constraints.joint_constraints, context)
    if positions or orientations:
        goals = pose_goals(positions, orientations, context)
        return [replace(goal, joints=joints) for goal in goals]
    if joints is None:
        raise refused(
            f"its joints are not those of group '{context.group.name}'"
            if constraints.joint_constraints
            else "it has no joint, position or orientation constraints"
        )
    return [joints]


# ---- joints


def joint_goal(constraints: Sequence[Any], context: GoalContext) -> JointGoal | None:
    """Return the goal of joint constraints; None if they contain no joint of the group.

    Joints of the group without a constraint are free; their start positions are preferred.

    Args:
        constraints: list of JointConstraint.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: unknown joints, contradictory constraints, or a constraint on a joint
            outside the group that is violated.
    """
    group = context.group
    limits = group.limits
    q = context.start.copy()
    unlimited = ~np.isfinite(limits.upper - limits.lower)
    low = np.where(unlimited, q - math.pi, limits.lower)
    high = np.where(unlimited, q + math.pi, limits.upper)
    low, high = np.minimum(low, q), np.maximum(high, q)
    named: set[str] = set()
    for constraint in of_leaders(constraints, context.robot):
        lower, upper = joint_interval(constraint, context)
        if constraint.joint_name not in group.joints:
            continue
        i = group.joints.index(constraint.joint_name)
        # Of a continuous joint, the interval nearest to its start, or to the other interval.
        near = np.where(np.arange(len(q)) == i, constraint.position, q)
        offset = float(limits.turns.offset(near, q)[i])
        position, lower, upper = constraint.position + offset, lower + offset, upper + offset
        if constraint.joint_name in named:
            lower, upper = max(low[i], lower), min(high[i], upper)
            if lower > upper:
                raise refused(f"two constraints of {group.joints[i]} contradict each other")
        named.add(constraint.joint_name)
        if max(lower, limits.lower[i]) <= min(upper, limits.upper[i]) + LIMIT_ROUNDING:
            lower, upper = (
                float(np.clip(end, limits.lower[i], limits.upper[i])) for end in (lower, upper)
            )
        low[i], high[i] = lower, upper
        q[i] = min(max(position, lower), upper)
    if not named:
        return None
    return JointGoal(q, below=q - low, above=high - q)


def of_leaders(constraints: Sequence[Any], robot: Robot) -> list[Any]:
    """Return joint constraints with those of mimic joints as constraints of their leaders.

    Raises:
        RequestRejected: one that the constraint of its leader contradicts.
    """
    try:
        return leader_constraints(constraints, robot.tree)
    except InvalidCommand as error:
        raise refused(str(error)) from None


def joint_interval(constraint: Any, context: GoalContext) -> tuple[float, float]:
    """Return the interval that a constraint allows [rad or m].

    Raises:
        RequestRejected: an unknown joint, invalid numbers, or a joint outside the group that
            violates its constraint.
    """
    name, names = constraint.joint_name, context.robot.joint_names
    if name not in names:
        raise refused(str(UnknownJoint(name, names, context.robot.name)))
    position = constraint.position
    below, above = constraint.tolerance_below, constraint.tolerance_above
    if not all(map(math.isfinite, (position, below, above))) or min(below, above) < 0.0:
        raise refused(
            f"the constraint of {name} needs finite numbers and tolerances that are not negative; "
            f"it has position {position}, tolerance_below {below}, tolerance_above {above}"
        )
    lower, upper = position - below, position + above
    if name not in context.group.joints:
        k = names.index(name)
        value = context.q[k]
        turns = context.robot.limits.turns.select(np.array([k]))
        if turns.excess([value], [lower], [upper])[0] > STATE_TOLERANCE:
            raise refused(
                f"{name} is at {value:.4f}, outside its constraint [{lower:.4f}, {upper:.4f}], but "
                f"group '{context.group.name}' does not move it; its joints: "
                f"{', '.join(context.group.joints)}"
            )
    return lower, upper


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
