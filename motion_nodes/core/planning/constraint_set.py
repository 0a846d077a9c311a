# SPDX-License-Identifier: Apache-2.0
"""Constraints of a path as arrays for kernels, with violations in words, and projection.

Kernels call the generated code of a link's pose and Jacobian over the joints of a checker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.problem import IkTolerance
from motion_nodes.core.planning.path_constraints import (
    COMPONENTS,
    JointBand,
    LineOfSight,
    PathConstraint,
    RegionUnion,
    TaskSpaceRegion,
    near_start,
)
from motion_nodes.core.planning.planning_problem import Goal, PoseGoal, PosesGoal
from motion_nodes.core.planning.pose_solvers import moving_joints
from motion_nodes.core.robot.limits import TURN
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.kernels.kinematic_arrays import pack, reroot
from motion_nodes.kernels.robot_codegen import CodeGenerationError, RobotCode
from motion_nodes.kernels.search import manifold as kernel
from motion_nodes.kernels.search import manifold as kinds
from motion_nodes.kernels.search.manifold import Manifold
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array

MIN_TOLERANCE = 1e-3
"""Tolerance of a path in place of smaller ones, and of equalities [m or rad]."""
_SHARE = 0.3
"""Max fraction of a tolerance that is reserved for the motion between two configurations."""
_RESERVED = (0.01, 0.02)
"""Max reserve of positions [m], and of rotations [rad]."""
_SHAPES = {"box": kinds.BOX, "ball": kinds.BALL, "cylinder": kinds.CYLINDER}
_ROTATIONS = {
    "euler_xyz": kinds.EULER,
    "rotation_vector": kinds.VECTOR,
    "angle": kinds.ANGLE,
}
_NAMES = {
    kinds.BALL: ("distance from the centre", "", ""),
    kinds.CYLINDER: ("distance from the axis", "", "z"),
    kinds.ANGLE: ("rotation", "", ""),
    kinds.SENSOR: ("view angle", "range angle", ""),
    kinds.TARGET: ("view angle", "range angle", ""),
}


def pose_and_jacobian(checker: CollisionChecker, link: str) -> int:
    """Return the address of ``both_one(q, pose, jacobian)`` of a link in the robot's base.

    Args:
        checker: its joints are the arguments; all others are fixed at its positions.
        link: the link.

    Raises:
        InvalidConfig: code cannot be generated on this machine.
    """
    robot = checker.robot
    values = zip(robot.joint_names, checker.positions, strict=True)
    above = {joint.name for joint in robot.chain(robot.tree.root, link)}
    fixed = {n: float(x) for n, x in values if n in above and n not in checker.joint_names}
    arrays = pack(robot.tree.packed, checker.joint_names, fixed)
    base = robot.tree.frame_names.index(robot.base_frame)
    if base:
        arrays = reroot(arrays, base)
    try:
        row = arrays.frame_rows[robot.tree.frame_names.index(link)]
        return RobotCode(arrays).address("both_one", row)
    except CodeGenerationError as error:
        raise InvalidConfig(f"the planner needs generated code: {error}") from None


@dataclass(frozen=True)
class ConstraintViolation:
    """How a configuration violates a constraint."""

    constraint: str
    """Name of the constraint."""
    component: str
    """Name of the violated component, or of the joint."""
    value: float
    lower: float
    upper: float
    unit: str
    """``m``, ``rad`` or, for joints, ``rad or m``."""

    @property
    def excess(self) -> float:
        """Distance from the nearest permitted value [m or rad]."""
        return max(self.lower - self.value, self.value - self.upper)

    def __str__(self) -> str:
        """Return the violation as text: which constraint, and by how much."""
        low, high = self.lower, self.upper
        allowed = f"{low:.4g} to {high:.4g}"
        if math.isinf(low):
            allowed = f"at most {high:.4g}"
        elif math.isinf(high):
            allowed = f"at least {low:.4g}"
        return (
            f"{self.constraint}: {self.component} is {self.value:.4g} {self.unit}, "
            f"{self.excess:.3g} outside ({allowed})"
        )


class _Task(NamedTuple):
    """One task constraint: a row of the manifold."""

    link: str
    X_LP: Array
    X_RB: Array
    position: int
    rotation: int
    union: int
    bounds: Array
    """Shape (6, 2)."""
    label: str
    reference: str = ""
    """Link that carries the reference frame; empty: the base."""


class ConstraintSet:
    """Constraints on the configurations of a checker's joints; not thread-safe."""

    def __init__(
        self,
        checker: CollisionChecker,
        constraints: Iterable[PathConstraint],
        min_tolerance: float = MIN_TOLERANCE,
        start: ArrayLike | None = None,
    ) -> None:
        """Validate the constraints and prepare the kernels' arrays.

        Args:
            checker: its joints define the order of configurations.
            constraints: all of them are satisfied.
            min_tolerance: smaller tolerances are replaced by it [m or rad].
            start: of the path, shape (n,), to which bounds of continuous joints are turned.

        Raises:
            InvalidCommand: joint bounds contradict each other or the joint limits.
            UnknownFrame, UnknownJoint: a name that the robot does not have.
            InvalidConfig: none of the joints moves a link.
        """
        place = (checker.joint_names, checker.limits.turns, start)
        self.constraints = tuple(near_start(each, *place) for each in constraints)
        self.notes: list[str] = []
        """Notes for the client, e.g. on tolerances that were replaced."""
        self._checker, self._least = checker, min_tolerance
        self._bands: list[tuple[int, JointBand]] = []
        self._lower, self._upper = checker.limits.lower.copy(), checker.limits.upper.copy()
        self._tasks: list[_Task] = []
        for number, constraint in enumerate(self.constraints):
            if isinstance(constraint, JointBand):
                self._add_band(constraint)
            elif isinstance(constraint, RegionUnion):
                for region in constraint.regions:
                    self._add_region(region, number, constraint.label)
            elif isinstance(constraint, TaskSpaceRegion):
                self._add_region(constraint, -1, constraint.label)
            else:
                self._add_sight(constraint)
        self.manifold = self._packed()

    def with_goal(self, goal: Goal, low: Array, high: Array) -> ConstraintSet:
        """Return the same constraints together with those of a goal.

        Args:
            goal: its poses are reached, with their own tolerances.
            low: min joint positions, shape (n,).
            high: max joint positions, shape (n,).
        """
        other = ConstraintSet(self._checker, self.constraints, self._least)
        other._lower = np.maximum(other._lower, low)
        other._upper = np.minimum(other._upper, high)
        other._least = 0.0
        poses = goal.poses if isinstance(goal, PosesGoal) else (goal,)
        for pose in poses:
            if isinstance(pose, PoseGoal):
                region = goal_region(pose)
                other._add_region(region, -1, region.label)
        other.manifold = other._packed()
        return other

    @property
    def joint_bounds(self) -> tuple[Array, Array]:
        """Joint limits and bounds of the constraints combined, shape (n,) each."""
        return self._lower, self._upper

    def in_turn(self, Q: ArrayLike) -> Array:
        """Return configurations in the turn of the bounds of continuous joints, shape (..., n)."""
        turns = self._checker.limits.turns
        return np.asarray(Q, np.float64) - turns.interval_offset(self._lower, self._upper, Q)

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the constrained links."""
        return tuple(dict.fromkeys(task.link for task in self._tasks))

    def excess(self, Q: ArrayLike) -> Array:
        """Return the largest violation of each configuration, shape (m,).

        At most 1 is permitted; 0 is inside tightened bounds. The violation of joint bounds counts
        in units of 1 mrad or 1 mm, above 1.

        Args:
            Q: configurations, shape (m, n).
        """
        points = np.ascontiguousarray(self.in_turn(Q))
        found = np.zeros(len(points))
        if self._tasks:
            kernel.violations(self.manifold, points, found)
        outside = np.maximum(self._lower - points, points - self._upper).max(axis=1, initial=0.0)
        return np.maximum(found, np.where(outside > 1e-9, 1.0 + 1e3 * outside, 0.0))

    def projected(self, Q: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
        """Project configurations inside the constraints.

        Args:
            Q: configurations, shape (m, n).

        Returns:
            Configurations, shape (m, n), and which of them satisfy the constraints, shape (m,).
        """
        points = np.array(Q, np.float64, order="C")
        converged = np.zeros(len(points), np.bool_)
        kernel.projected(self.manifold, points, converged)
        return points, converged

    def violations(self, q: ArrayLike) -> tuple[ConstraintViolation, ...]:
        """Return the violated constraints of a configuration; of a union each alternative.

        Args:
            q: shape (n,).
        """
        point = self.in_turn(q)
        found = [
            ConstraintViolation(
                band.label, band.joint, float(point[i]), band.lower, band.upper, "rad or m"
            )
            for i, band in self._bands
            if not band.lower - 1e-9 <= point[i] <= band.upper + 1e-9
        ]
        n, t = len(point), len(self._tasks)
        values, jacobian = np.empty((t, 6)), np.empty((t, 6, n))
        if t:
            kernel.components(self.manifold, point, values, jacobian)
        unions: dict[int, list[tuple[ConstraintViolation, ...]]] = {}
        for task, components in zip(self._tasks, values, strict=True):
            wrong = _violations_of(task, components)
            if task.union < 0:
                found += wrong
            else:
                unions.setdefault(task.union, []).append(wrong)
        for alternatives in unions.values():
            found += min(alternatives, key=lambda v: max((x.excess for x in v), default=0.0))
        return tuple(found)

    def in_words(self, q: ArrayLike) -> str:
        """Return the violated constraints as text, empty if there are none."""
        return "; ".join(map(str, self.violations(q)))

    # ---- internal

    def _add_band(self, band: JointBand) -> None:
        names = self._checker.joint_names
        if band.joint not in names:
            raise UnknownJoint(band.joint, names, self._checker.robot.name)
        i = names.index(band.joint)
        if self._checker.limits.continuous[i] and band.upper - band.lower >= TURN:
            return
        low, high = max(self._lower[i], band.lower), min(self._upper[i], band.upper)
        if low > high + LIMIT_ROUNDING:
            raise InvalidCommand(
                f"{band.label}: {band.joint} between {band.lower:g} and {band.upper:g} contradicts "
                f"its other bounds, {self._lower[i]:g} to {self._upper[i]:g}."
            )
        if high - low < 2.0 * self._least:
            limits = self._checker.limits
            middle = min(max(0.5 * (low + high), float(limits.lower[i])), float(limits.upper[i]))
            low = max(middle - self._least, float(limits.lower[i]))
            high = min(middle + self._least, float(limits.upper[i]))
            self._replaced(f"{band.label}: {band.joint}", "rad or m")
            band = JointBand(band.joint, low, high, band.name)
        self._lower[i], self._upper[i] = low, high
        self._bands.append((i, band))

    def _add_region(self, region: TaskSpaceRegion, union: int, label: str) -> None:
        position, rotation = _SHAPES[region.shape], _ROTATIONS[region.rotation]
        bounds = np.array((region.lower, region.upper)).T
        if position in (kinds.BALL, kinds.CYLINDER):
            bounds[0, 0] = -math.inf
            bounds[1] = (-math.inf, math.inf)
        if position == kinds.BALL:
            bounds[2] = (-math.inf, math.inf)
        if rotation == kinds.ANGLE:
            bounds[3, 0] = -math.inf
            bounds[4:] = (-math.inf, math.inf)
        turns = bounds[3:]
        turns[(turns[:, 0] <= -math.pi) & (turns[:, 1] >= math.pi)] = (-math.inf, math.inf)
        X_RB, X_LP = inverse(np.asarray(region.X_BR)), np.asarray(region.X_LT)
        other = region.reference_link
        self._add(_Task(region.link, X_LP, X_RB, position, rotation, union, bounds, label, other))

    def _add_sight(self, sight: LineOfSight) -> None:
        bounds = np.full((6, 2), (-math.inf, math.inf))
        bounds[3, 1], bounds[4, 1] = sight.max_view_angle, sight.max_range_angle
        bounds[bounds >= math.pi] = math.inf
        X_RB, X_LP = inverse(np.asarray(sight.X_BR)), np.asarray(sight.X_LP)
        kind = kinds.SENSOR if sight.sensor_on_link else kinds.TARGET
        self._add(_Task(sight.link, X_LP, X_RB, kinds.NONE, kind, -1, bounds, sight.label))

    def _add(self, task: _Task) -> None:
        self._check_moved(task)
        for i, (low, high) in enumerate(task.bounds):
            one_sided = math.isinf(low)
            narrow = high < self._least if one_sided else high - low < 2.0 * self._least
            if narrow:
                middle = 0.0 if one_sided else 0.5 * (low + high)
                task.bounds[i, 1] = middle + self._least
                task.bounds[i, 0] = low if one_sided else middle - self._least
                self._replaced(f"{task.label}: {_names(task)[i]}", "m" if i < 3 else "rad")
        self._tasks.append(task)

    def _check_moved(self, task: _Task) -> None:
        """Raise an error if no joint moves the constrained link or its reference link."""
        links = [link for link in (task.link, task.reference) if link]
        fixed: list[InvalidConfig] = []
        for link in links:
            try:
                moving_joints(self._checker, link)
            except InvalidConfig as error:
                fixed.append(error)
        if len(fixed) == len(links):
            raise fixed[0]

    def _replaced(self, what: str, unit: str) -> None:
        self.notes.append(
            f"the tolerance of {what} is below the precision of paths; {self._least:g} {unit} is "
            "used"
        )

    def _packed(self) -> Manifold:
        tasks = self._tasks
        t = len(tasks)
        bounds = np.array([task.bounds for task in tasks]).reshape(t, 6, 2)
        reserve = np.repeat(_RESERVED, 3)
        sides = np.where(np.isinf(bounds[..., 0]), 2.0 * bounds[..., 1], np.ptp(bounds, axis=2))
        half = np.where(np.isfinite(sides), 0.5 * np.abs(sides), reserve)
        margins = np.minimum(_SHARE * half, reserve)
        bounds[..., 0] += margins
        bounds[..., 1] -= margins
        return Manifold(
            np.array([pose_and_jacobian(self._checker, task.link) for task in tasks], np.int64),
            np.array(
                [
                    pose_and_jacobian(self._checker, x.reference) if x.reference else 0
                    for x in tasks
                ],
                np.int64,
            ),
            np.array([task.X_LP for task in tasks]).reshape(t, 4, 4),
            np.array([task.X_RB for task in tasks]).reshape(t, 4, 4),
            np.array([task.position for task in tasks], np.int64),
            np.array([task.rotation for task in tasks], np.int64),
            np.array([task.union for task in tasks], np.int64),
            bounds,
            margins,
            np.array((self._lower, self._upper)),
        )


def goal_region(goal: PoseGoal) -> TaskSpaceRegion:
    """Return the region of a pose goal."""
    tolerance: IkTolerance = goal.tolerance
    upper = tolerance.axes.copy()
    lengths = tolerance.lengths
    if np.isfinite(lengths[0]):
        upper[0] = lengths[0]
    if np.isfinite(lengths[1]):
        upper[3] = lengths[1]
    return TaskSpaceRegion(
        goal.link,
        goal.X_BT,
        tuple(-upper),
        tuple(upper),
        goal.X_LT,
        shape="ball" if np.isfinite(lengths[0]) else "box",
        rotation="angle" if np.isfinite(lengths[1]) else "rotation_vector",
        name=f"the goal of {goal.link}",
    )


def _names(task: _Task) -> tuple[str, ...]:
    """Return the names of a task's components."""
    return (*_NAMES.get(task.position, COMPONENTS[:3]), *_rotation_names(task.rotation))


def _rotation_names(rotation: int) -> tuple[str, ...]:
    if rotation in (kinds.EULER, kinds.VECTOR):
        return COMPONENTS[3:]
    return _NAMES[rotation]


def _violations_of(task: _Task, values: Array) -> tuple[ConstraintViolation, ...]:
    names = _names(task)
    return tuple(
        ConstraintViolation(
            task.label, names[i], float(value), float(low), float(high), "m" if i < 3 else "rad"
        )
        for i, (value, (low, high)) in enumerate(zip(values, task.bounds, strict=True))
        if not low - 1e-9 <= value <= high + 1e-9
    )
