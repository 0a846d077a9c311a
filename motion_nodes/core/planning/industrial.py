# SPDX-License-Identifier: Apache-2.0
"""Motions of industrial robots: point to point, straight lines, arcs, and blended sequences.

Point-to-point, linear and circular motions to one goal: PTP, LIN, CIRC; blending of joint paths
around the points where they meet.

Sequences of point-to-point, linear and circular motions, with blending between them. Consecutive
motions with a blend radius become one path, whose joints do not stop; all others stop at their
goal. A blend begins and ends at the distance of its radius from the goal.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.planning.cartesian import checker_kinematics, tool_speeds
from motion_nodes.core.planning.constrained.constrained_plan import constraint_fault
from motion_nodes.core.planning.constrained.constraint_set import ConstraintSet
from motion_nodes.core.planning.goal_sampling import goal_configurations
from motion_nodes.core.planning.joint_space import JointSpace
from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.planning.plan_adapters import joined, payload_along
from motion_nodes.core.planning.plan_run import PlanOptions, PlanRun
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStatus,
    PoseGoal,
    PosesGoal,
)
from motion_nodes.core.planning.pose_solvers import pose_chain
from motion_nodes.core.planning.start_state import check_start
from motion_nodes.core.planning.task_space_conversion import PathConversionConfig, PathConverter
from motion_nodes.core.planning.task_space_path_spec import TaskSpacePathSpec
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.payload import Payload
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import JointPath, chained
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, polynomial_between
from motion_nodes.core.trajectory.path_efforts import EFFORT_SHARE, effort_limits
from motion_nodes.core.trajectory.time_parameterization import scaled_limits, time_optimal
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.tolerances import POSITION_ROUNDING
from motion_nodes.typing import Array

_PRECISION = PathConversionConfig(
    min_position_deviation=2e-5, max_position_deviation=5e-5, max_orientation_deviation=1e-3
)
"""The tool keeps within 0.05 mm and 1 mrad of lines and arcs."""
_RADIUS_TOLERANCE = 1e-3
"""Max difference of the distances of start and goal from a given centre [m]."""
_COLLINEAR = 1e-3
"""Min angle between the directions to start and goal from a centre, and from half a turn [rad]."""
_BISECTIONS = 40
_SAMPLE_TIME = 0.005  # [s]
AT_GOAL = "the robot is at the goal already: there is nothing to move"
"""Note of a plan without a motion."""
_TIME_STEP = 0.01
"""Time between two points of a trajectory [s]."""


class ToolMotion(enum.Enum):
    """Kind of a motion; the values are planner ids."""

    PTP = "PTP"
    """Straight line in joint space."""
    LIN = "LIN"
    """Straight line of the tool, with uniform rotation."""
    CIRC = "CIRC"
    """Circular arc of the tool, with uniform rotation."""


@dataclass(frozen=True, eq=False)
class ArcPoint:
    """Further point that defines an arc from start to goal."""

    point: ArrayLike
    """Position in the robot's base [m], shape (3,)."""
    is_center: bool
    """Centre of the circle, of whose two arcs the shorter is used; else a point of the arc."""


class MotionRejected(Exception):
    """A motion that is impossible; an expected outcome."""

    def __init__(self, status: PlanStatus, reason: str) -> None:
        """Create with the status of planning and its reason."""
        super().__init__(reason)
        self.status = status


def tool_path(
    request: PlanRequest, start: Array, kind: ToolMotion, arc: ArcPoint | None, link: str
) -> JointPath | None:
    """Return the joint path of a motion from a start to the goal of a request.

    Collisions are not checked. None: PTP or LIN to where the robot is, which needs no motion.

    Args:
        request: with exactly one goal.
        start: joint positions, shape (n,).
        kind: of the motion.
        arc: for CIRC.
        link: the controlled link if the goal is a joint goal.

    Raises:
        MotionRejected: the goal or the path cannot be reached.
        InvalidCommand: not exactly one goal, or an arc that is not defined.
    """
    if len(request.goals) != 1:
        raise InvalidCommand(f"{kind.value} needs one goal; {len(request.goals)} were given")
    if kind is ToolMotion.PTP:
        return _point_to_point(request, start)
    goal = request.goals[0]
    if isinstance(goal, PosesGoal):
        links = ", ".join(pose.link for pose in goal.poses)
        raise InvalidCommand(
            f"{kind.value} moves one tool; the goal has poses of {links}", field=kind.value
        )
    link = goal.link if isinstance(goal, PoseGoal) else link
    checker = request.checker
    tool = np.eye(4)
    if isinstance(goal, PoseGoal) and goal.X_LT is not None:
        tool = np.asarray(goal.X_LT, np.float64)
    kinematics = checker_kinematics(checker)
    X_start = np.asarray(kinematics.pose(start, link) @ tool)
    X_goal = _goal_pose(request, goal, start, X_start, tool, link)
    spec = TaskSpacePathSpec(X_start @ inverse(tool))
    if kind is ToolMotion.LIN:
        if np.allclose(X_start, X_goal, rtol=0.0, atol=POSITION_ROUNDING):
            return None
        spec.add_linear_path(X_goal @ inverse(tool))
    else:
        if arc is None:
            raise InvalidCommand("CIRC needs the centre or an interim point of the arc")
        if tool[:3, 3].any():
            raise InvalidCommand("CIRC needs a goal for the link's origin, without an offset")
        middle = _middle(X_start[:3, 3], X_goal[:3, 3], arc)
        spec.add_three_point_arc_with_orientation_target(X_goal, middle)
    return _converted(checker, link, spec, start)


def _point_to_point(request: PlanRequest, start: Array) -> JointPath | None:
    found = goal_configurations(request, start)
    if found.status is not None:
        raise MotionRejected(found.status, found.reason)
    names = request.checker.joint_names
    # Continuous joints turn in the shorter direction.
    changes = JointSpace.of_robot(request.checker.robot, names).difference(start, found.Q)
    change = changes[int(np.argmin(np.abs(changes).max(axis=1)))]
    length = float(np.abs(change).max())
    if length < POSITION_ROUNDING:
        return None
    coefficients = np.array([[start, change / length]])
    return JointPath(names, np.array([0.0, length]), coefficients, np.empty(0))


def _goal_pose(
    request: PlanRequest,
    goal: JointGoal | PoseGoal,
    start: Array,
    X_start: Array,
    tool: Array,
    link: str,
) -> Array:
    """Return the pose of the tool at the goal; parts that the goal leaves free are kept."""
    if isinstance(goal, JointGoal):
        found = goal_configurations(request, start)
        if found.status is not None:
            raise MotionRejected(found.status, found.reason)
        return np.asarray(checker_kinematics(request.checker).pose(found.Q[0], link) @ tool)
    X = np.array(goal.X_BT, np.float64)
    free = goal.tolerance.free
    if free[:3].all():
        X[:3, 3] = X_start[:3, 3]
    if free[3:].all():
        X[:3, :3] = X_start[:3, :3]
    return X


def _middle(start: Array, goal: Array, arc: ArcPoint) -> Array:
    """Return a point of the arc between its ends.

    Raises:
        InvalidCommand: the centre is not at the same distance from both, or in line with them.
    """
    point = np.asarray(arc.point, np.float64)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise InvalidCommand(f"the arc's point must be three finite numbers [m], got {arc.point!r}")
    if not arc.is_center:
        return point
    a, b = start - point, goal - point
    near, far = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if abs(near - far) > _RADIUS_TOLERANCE or near < POSITION_ROUNDING:
        raise InvalidCommand(
            f"the centre of the arc is {near:.4g} m from the start and {far:.4g} m from the goal; "
            f"they may differ by {_RADIUS_TOLERANCE:g} m"
        )
    cosine = float(np.clip(a @ b / (near * far), -1.0, 1.0))
    angle = float(np.arccos(cosine))
    if not _COLLINEAR < angle < np.pi - _COLLINEAR:
        raise InvalidCommand(
            "start, goal and centre of the arc are in line, so that its plane is not defined; use "
            "an interim point"
        )
    across = a / near + b / far
    # The circle through start and goal: the given centre is moved onto the bisecting plane.
    chord = goal - start
    center = point + chord * float((0.5 * (start + goal) - point) @ chord) / float(chord @ chord)
    radius = float(np.linalg.norm(start - center))
    return np.asarray(center + radius * across / np.linalg.norm(across))


def _converted(
    checker: CollisionChecker, link: str, spec: TaskSpacePathSpec, start: Array
) -> JointPath:
    """Return the joint path of a tool path, for all joints of the checker."""
    chain: IkChain = pose_chain(checker, link)
    columns = [checker.joint_names.index(name) for name in chain.joint_names]
    found = PathConverter(chain, _PRECISION).convert(spec.path(), start[columns])
    if found.path is None or found.reason:
        raise MotionRejected(PlanStatus.GOAL_UNREACHABLE, found.reason)
    path = found.path
    coefficients = np.zeros((*path.coefficients.shape[:2], len(start)))
    coefficients[:, 0] = start
    coefficients[:, :, columns] = path.coefficients
    return JointPath(checker.joint_names, path.breaks, coefficients, path.stops)


def blended(
    before: JointPath, after: JointPath, distance: Callable[[Array], float], radius: float
) -> tuple[JointPath, JointPath, JointPath]:
    """Return two paths shortened around the point where they meet, and the blend between them.

    The blend is a polynomial of degree five that continues position, first and second derivative.

    Args:
        before: path that ends at the point.
        after: path that begins there, without stops within the radius.
        distance: returns the distance of the tool from the point [m] at a configuration.
        radius: distance at which the blend begins and ends [m].

    Returns:
        The first path, the blend, the second path.
    """
    leave = _place(before, distance, radius, from_end=True)
    enter = _place(after, distance, radius, from_end=False)
    first, second = _part(before, 0.0, leave), _part(after, enter, after.length)
    span = (before.length - leave) + enter
    ends = [
        (path.evaluate([s])[0], path.evaluate([s], 1)[0], path.evaluate([s], 2)[0])
        for path, s in ((before, leave), (after, enter))
    ]
    coefficients = np.array(polynomial_between(ends[0], ends[1], span))
    blend = JointPath(
        before.joint_names, np.array([0.0, span]), coefficients[np.newaxis], np.empty(0)
    )
    return first, blend, second


def joined_smoothly(parts: Sequence[JointPath]) -> JointPath:
    """Return consecutive paths, at least one, as one path without stops between them."""
    whole = chained(parts)
    ends = np.cumsum([part.length for part in parts])[:-1]
    kept = [s for s in whole.stops if not np.isclose(s, ends, rtol=0.0, atol=1e-9).any()]
    return JointPath(whole.joint_names, whole.breaks, whole.coefficients, np.array(kept))


def _place(
    path: JointPath, distance: Callable[[Array], float], radius: float, *, from_end: bool
) -> float:
    """Return the place nearest to the end (or start) at which the tool is at a distance."""
    places = np.linspace(0.0, path.length, 201)
    places = places[::-1] if from_end else places
    far = places[-1]
    near = places[0]
    for s in places[1:]:
        if distance(path.evaluate([s])[0]) >= radius:
            far = s
            break
        near = s
    for _ in range(_BISECTIONS):
        middle = 0.5 * (near + far)
        if distance(path.evaluate([middle])[0]) >= radius:
            far = middle
        else:
            near = middle
    return float(near)


def _part(path: JointPath, begin: float, end: float) -> JointPath:
    """Return the part of a path between two places."""
    inner = path.breaks[(path.breaks > begin + 1e-12) & (path.breaks < end - 1e-12)]
    breaks = np.concatenate([[begin], inner, [end]])
    middles = 0.5 * (breaks[:-1] + breaks[1:])
    piece = path.piece_at(middles)
    # Taylor expansion of each piece around its new start.
    degree = path.coefficients.shape[1] - 1
    factorial = np.cumprod(np.append(1.0, np.arange(1, degree + 1)))
    coefficients = np.stack(
        [
            path.evaluate(breaks[:-1], order, piece) / factorial[order]
            for order in range(degree + 1)
        ],
        axis=1,
    )
    stops = path.stops[(path.stops > begin) & (path.stops < end)] - begin
    return JointPath(path.joint_names, breaks - begin, coefficients, stops)


@dataclass(frozen=True, eq=False)
class SequenceItem:
    """One motion of a sequence."""

    request: PlanRequest
    """Checker, goal and constraints; the start is used of the first item only."""
    kind: ToolMotion
    """Kind of the motion."""
    link: str
    """Link that blend radii refer to, and that moves along lines and arcs to joint goals."""
    arc: ArcPoint | None = None
    """For CIRC."""
    blend_radius: float = 0.0
    """Radius around the goal within which the next motion begins [m]; 0: stop there."""
    velocity_scaling: float = 1.0
    """Velocity scaling factor; of blended motions the smallest is used."""
    acceleration_scaling: float = 1.0
    """Acceleration scaling factor, likewise."""
    tool_speed: tuple[str, float] | None = None
    """Link, and its max speed [m/s]."""


def plan_sequence(
    items: Sequence[SequenceItem],
    effort_share: float = EFFORT_SHARE,
    payload: Payload | None = None,
) -> MotionPlan:
    """Plan a sequence of motions.

    Args:
        items: at least one; all for the same joints.
        effort_share: fraction of the effort limits that may be used; 0: not considered.
        payload: for the effort limits; motions that it overloads are rejected.

    Returns:
        The plan; ``motion`` is None if the joints stop between motions. One that is at its goals
        already has a trajectory of one point.

    Raises:
        InvalidCommand: no items, invalid blend radii, goals or arcs.
        InvalidConfig, UnknownFrame: limits that permit no motion, unknown links.
    """
    began = compute_time()
    if not items:
        raise InvalidCommand("the sequence has no items")
    _check_radii(items)
    try:
        plan = _planned(items, effort_share, payload, began)
        options = PlanOptions(effort_share=effort_share, payload=payload)
        return payload_along(PlanRun(items[0].request, options), plan)
    except MotionRejected as rejected:
        spent = compute_time() - began
        result = PlanResult(rejected.status, None, str(rejected), items[0].kind.value, time=spent)
        return MotionPlan(result, None, None, (), (), spent)


def _planned(
    items: Sequence[SequenceItem], effort_share: float, payload: Payload | None, began: float
) -> MotionPlan:
    checker = items[0].request.checker
    start = check_start(checker, items[0].request.start)
    if start.status is not None:
        raise MotionRejected(start.status, start.reason)
    paths, q = [], start.q
    for number, item in enumerate(items):
        try:
            paths.append(tool_path(item.request, q, item.kind, item.arc, item.link))
        except (MotionRejected, InvalidCommand) as error:
            raise _numbered(error, number, len(items)) from None
        if paths[-1] is not None:
            q = paths[-1].evaluate([paths[-1].length])[0]
    kinematics = checker_kinematics(checker)
    trajectory = _standing(checker.joint_names, start.q)
    motions: list[TimedPath] = []
    for first, last in _runs(items):
        run, parts = items[first : last + 1], paths[first : last + 1]
        moved = [path for path in parts if path is not None]
        if not moved and first == last:
            continue
        if len(moved) < len(parts):
            still = first + parts.index(None)
            text = "it does not move, so that it cannot be blended with its neighbour"
            raise _numbered(InvalidCommand(text), still, len(items))
        path = _blended_run(run, moved, kinematics)
        motion = _timed(run, path, effort_share, payload)
        _verify(run, motion, first, len(items))
        motions.append(motion)
        trajectory = joined(trajectory, motion.points(_TIME_STEP), _TIME_STEP)
    spent = compute_time() - began
    space = JointSpace.of_robot(checker.robot, checker.joint_names)
    way = trajectory.positions
    name = items[0].kind.value if len(items) == 1 else "sequence"
    result = PlanResult(
        PlanStatus.SOLVED, way, "", name, cost=space.length(way), time=spent, goal_index=0
    )
    return MotionPlan(
        result,
        trajectory,
        motions[0] if len(motions) == 1 else None,
        (),
        _notes(items) if motions else (AT_GOAL,),
        spent,
    )


def _standing(names: Sequence[str], q: Array) -> JointTrajectory:
    """Return the trajectory of joints that stay at positions [rad or m], shape (n,): one point."""
    zero = np.zeros((1, len(q)))
    return JointTrajectory(tuple(names), np.zeros(1), q[np.newaxis], zero, zero)


def _check_radii(items: Sequence[SequenceItem]) -> None:
    for number, item in enumerate(items, start=1):
        if not (math.isfinite(item.blend_radius) and item.blend_radius >= 0.0):
            raise InvalidCommand(
                f"the blend radius of item {number} is {item.blend_radius} m; it must be finite "
                "and not negative"
            )
    if items[-1].blend_radius > 0.0:
        raise InvalidCommand(
            f"the blend radius of the last item is {items[-1].blend_radius:g} m; it must be 0: "
            "no motion follows"
        )


def _runs(items: Sequence[SequenceItem]) -> list[tuple[int, int]]:
    """Return first and last item of each part of the sequence without a stop."""
    ends = [k for k, item in enumerate(items) if item.blend_radius == 0.0]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def _blended_run(
    items: Sequence[SequenceItem], paths: Sequence[JointPath], kinematics: GroupKinematics
) -> JointPath:
    """Return one path along motions that are blended into each other."""

    def place(q: Array, link: str) -> Array:
        return np.asarray(kinematics.pose(q, link))[:3, 3]

    for (item, path), (other, following) in itertools.pairwise(zip(items, paths, strict=True)):
        here = place(path.evaluate([path.length])[0], item.link)
        there = place(following.evaluate([following.length])[0], item.link)
        before = place(path.evaluate([0.0])[0], item.link)
        away = float(min(np.linalg.norm(there - here), np.linalg.norm(before - here)))
        if item.blend_radius + other.blend_radius >= away:
            raise InvalidCommand(
                f"blend radii of {item.blend_radius:g} and {other.blend_radius:g} m overlap: the "
                f"tool's positions are {away:.4g} m apart"
            )
    parts: list[JointPath] = []
    rest = paths[0]
    for item, following in zip(items[:-1], paths[1:], strict=True):
        corner = place(rest.evaluate([rest.length])[0], item.link)
        link = item.link

        def distance(q: Array, corner: Array = corner, link: str = link) -> float:
            return float(np.linalg.norm(place(q, link) - corner))

        first, blend, rest = blended(rest, following, distance, item.blend_radius)
        parts += [first, blend]
    parts.append(rest)
    return joined_smoothly(parts)


def _timed(
    items: Sequence[SequenceItem], path: JointPath, share: float, payload: Payload | None
) -> TimedPath:
    checker = items[0].request.checker
    limits = scaled_limits(
        checker.limits,
        min(item.velocity_scaling or 1.0 for item in items),
        min(item.acceleration_scaling or 1.0 for item in items),
    )
    robot, joints = checker.robot, checker.joint_names
    efforts = effort_limits(robot, joints, checker.positions, share, payload)
    slowest: dict[str, float] = {}
    for link, speed in filter(None, (item.tool_speed for item in items)):
        slowest[link] = min(speed, slowest.get(link, math.inf))
    speeds = tool_speeds(checker, slowest)
    return time_optimal(path, limits, efforts=efforts, speeds=speeds)


def _verify(items: Sequence[SequenceItem], motion: TimedPath, first: int, count: int) -> None:
    """Raise an error if a motion leaves limits, is in collision or violates constraints."""
    checker = items[0].request.checker
    driven = motion.states(motion.sample_times(_SAMPLE_TIME))[0]
    reason = PathVerifier(checker).verify(driven).reason
    constraints = [c for item in items for c in item.request.constraints]
    if not reason and constraints:
        reason = constraint_fault(ConstraintSet(checker, constraints), checker, driven)
    if reason:
        raise _numbered(MotionRejected(PlanStatus.BLOCKED, reason), first, count)


def _numbered(error: Exception, number: int, count: int) -> Exception:
    """Return an error that names its item, if there are several."""
    if count == 1:
        return error
    text = f"item {number + 1} of {count}: {error}"
    if isinstance(error, MotionRejected):
        return MotionRejected(error.status, text)
    return InvalidCommand(text)


def _notes(items: Sequence[SequenceItem]) -> tuple[str, ...]:
    for first, last in _runs(items):
        run = items[first : last + 1]
        scalings = {(item.velocity_scaling, item.acceleration_scaling) for item in run}
        if len(scalings) > 1:
            return ("of blended motions with different scaling factors the smallest are used",)
    return ()
