# SPDX-License-Identifier: Apache-2.0
"""Joint paths of point-to-point, linear and circular motions to one goal: PTP, LIN, CIRC."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.planning.cartesian import checker_kinematics
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanStatus,
    PoseGoal,
    PosesGoal,
)
from motion_nodes.core.planning.pose_solvers import pose_chain
from motion_nodes.core.planning.task_space_conversion import PathConversionConfig, PathConverter
from motion_nodes.core.planning.task_space_path_spec import TaskSpacePathSpec
from motion_nodes.core.planning.tree_search import goal_configurations
from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.errors import InvalidCommand
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
    point = finite_numbers(arc.point, 3, "the arc's point [m]")
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
