# SPDX-License-Identifier: Apache-2.0
"""Cartesian paths: collision-free straight lines of the tool through poses, within limits.

Each step is solved from the previous configuration, so the arm never switches between IK branches.
If the path ends early, the result contains where, and why.

With a limited speed of a link, motions are as fast as other limits permit, up to that speed.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance, pose_error
from motion_nodes.core.planning.path_tools import interpolate_poses
from motion_nodes.core.planning.path_verification import sweep_path
from motion_nodes.core.planning.planning_problem import (
    START_TOLERANCE,
    JointSpace,
    PlanStatus,
    check_start,
    in_words,
)
from motion_nodes.core.planning.pose_solvers import pose_solver
from motion_nodes.core.robot.inverse_dynamics import Payload, too_heavy
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.poses import inverse, rigid_pose
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.time_parameterization import (
    PointSpeeds,
    retime,
    scaled_limits,
    time_optimal,
)
from motion_nodes.core.trajectory.timed_path import EFFORT_SHARE, SLOWEST, TimedPath, effort_limits
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.typing import Array

BLEND = 1e-3
"""Max deviation of the joints at the corners between steps [rad or m]: the tool stays on its line.
"""
_BETWEEN = 0.01
"""Time between verified configurations of a motion [s]."""
_HALVINGS = 6
"""Max number of bisections of a step if the tool would leave the line between its ends."""
_AT_LIMIT = 1e-3
"""Distance from a limit below which a joint is reported as being at the limit [rad or m]."""


class CartesianStop(enum.Enum):
    """Why a Cartesian path ended."""

    COMPLETE = "complete"
    START = "start"
    """The path could not be started."""
    OUT_OF_REACH = "out of reach"
    """No joint positions close to the previous ones reach the next pose."""
    COLLISION = "collision"
    JUMP = "jump"
    """The joints would have to move far for a small step of the tool."""
    CONSTRAINTS = "path constraints"
    """A constraint along the path would be violated."""


@dataclass(frozen=True)
class CartesianOptions:
    """Options of a Cartesian path."""

    max_step: float = 0.01
    """Max distance between two poses [m]."""
    max_angle: float = math.pi / 16.0
    """Max rotation between two poses [rad]."""
    max_deviation: float = 1e-3
    """Max deviation of the tool from the line between two poses [m]."""
    revolute_jump: float = 0.0
    """Max step of a revolute joint [rad]; 0: not checked."""
    prismatic_jump: float = 0.0
    """Max step of a prismatic joint [m]; 0: not checked."""
    jump_factor: float = 0.0
    """Max step in joint space, as a multiple of the mean step; 0: not checked."""
    avoid_collisions: bool = True
    tolerance: IkTolerance = field(default_factory=lambda: IkTolerance(1e-5, 1e-4))

    def __post_init__(self) -> None:
        for name in ("max_step", "max_angle", "max_deviation"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise InvalidConfig(
                    f"{name} is {value}; it must be finite and above 0.", field=name
                )
        for name in ("revolute_jump", "prismatic_jump", "jump_factor"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise InvalidConfig(
                    f"{name} is {value}; it must be finite; 0 disables it.", field=name
                )


@dataclass(frozen=True, eq=False)
class CartesianPath:
    """Result of Cartesian planning."""

    path: Array
    """Waypoints joined by straight lines in joint space, shape (k, n); at least the start."""
    fraction: float
    """Fraction of the path's steps that was achieved, 0 to 1."""
    stop: CartesianStop
    reason: str
    """End of an incomplete path and its reason; empty if it is complete."""

    @property
    def success(self) -> bool:
        """Whether it reaches the last pose."""
        return self.stop is CartesianStop.COMPLETE


def cartesian_path(
    checker: CollisionChecker,
    start: ArrayLike,
    link: str,
    poses: Sequence[ArrayLike],
    options: CartesianOptions | None = None,
    *,
    X_LT: ArrayLike | None = None,
) -> CartesianPath:
    """Plan straight lines of the tool through poses.

    Args:
        checker: robot and scene.
        start: current joint positions [rad or m], shape (n,).
        link: the controlled link.
        poses: X_BT in the robot's base, each of shape (4, 4), at least one; the first line begins
            at the current tool pose.
        options: step sizes and checks.
        X_LT: the tool frame in the link, shape (4, 4); None: identity.

    Raises:
        InvalidCommand: no poses, an invalid pose, or wrong number of joint positions.
        UnknownFrame: the robot does not have this link.
        InvalidConfig: none of the joints moves it.
    """
    options = options or CartesianOptions()
    begin = check_start(checker, start, START_TOLERANCE)
    touching = begin.status is PlanStatus.START_IN_COLLISION
    if begin.status is not None and (options.avoid_collisions or not touching):
        return CartesianPath(begin.q[np.newaxis], 0.0, CartesianStop.START, begin.reason)
    return _Follower(checker, begin.q, link, poses, options, X_LT).follow()


class _Follower:
    """State of one path during planning."""

    def __init__(
        self,
        checker: CollisionChecker,
        start: Array,
        link: str,
        poses: Sequence[ArrayLike],
        options: CartesianOptions,
        X_LT: ArrayLike | None,
    ) -> None:
        self._checker, self._link, self._options = checker, link, options
        self._solver, self._columns = pose_solver(checker, link)
        self._space = JointSpace.of_robot(checker.robot, checker.joint_names)
        self._tool = np.eye(4) if X_LT is None else rigid_pose(X_LT, "X_LT")
        self._settings = IkSettings(tolerance=options.tolerance, attempts=1, timeout=1.0)
        self._kinematics = checker_kinematics(checker)
        self._path = [start]
        self._poses = self._steps([self._pose(start), *self._checked(poses)])

    def follow(self) -> CartesianPath:
        """Move from pose to pose as far as possible."""
        total, reached = len(self._poses) - 1, 0
        # Number of waypoints when each pose is reached.
        sizes = [1]
        stop, why = CartesianStop.COMPLETE, ""
        for X_BT in self._poses[1:]:
            stop, why = self._step(self._poses[reached], X_BT, _HALVINGS)
            if stop is not CartesianStop.COMPLETE:
                break
            reached += 1
            sizes.append(len(self._path))
        del self._path[sizes[-1] :]
        path = np.array(self._path)
        jump = self._first_jump(path)
        if jump is not None:
            reached = int(np.searchsorted(sizes, jump, side="right")) - 1
            path, stop = path[: sizes[reached]], CartesianStop.JUMP
            why = f"the joints move more than {self._options.jump_factor:g} times the mean step"
        fraction = reached / total if total else 1.0
        if stop is CartesianStop.COMPLETE:
            return CartesianPath(path, 1.0, stop, "")
        place = ", ".join(f"{x:.4g}" for x in self._poses[reached][:3, 3])
        reason = f"at {100.0 * fraction:.3g} % of the path, with {self._link} at [{place}] m: {why}"
        return CartesianPath(path, fraction, stop, reason)

    def _step(self, A: Array, B: Array, halvings: int) -> tuple[CartesianStop, str]:
        """Add waypoints from one pose to the next."""
        now = self._path[-1]
        request = IkRequest(
            B @ inverse(self._tool), seed=now[self._columns], settings=self._settings
        )
        result = self._solver.solve(request)
        if not result.success:
            return CartesianStop.OUT_OF_REACH, self._why_not(result.q)
        q = now.copy()
        q[self._columns] = result.q
        q = now + self._space.difference(now, q)
        if halvings and self._deviation(A, B, 0.5 * (now + q)) > self._options.max_deviation:
            middle = _halfway(A, B)
            stop, why = self._step(A, middle, halvings - 1)
            if stop is not CartesianStop.COMPLETE:
                return stop, why
            return self._step(middle, B, halvings - 1)
        moved = np.abs(q - now)
        limits = np.where(
            self._space.prismatic, self._options.prismatic_jump, self._options.revolute_jump
        )
        far = (limits > 0.0) & (moved > limits)
        if far.any():
            k = int(np.argmax(far))
            name = self._checker.joint_names[k]
            return CartesianStop.JUMP, (
                f"{name} would jump by {moved[k]:.3g}; the max is {limits[k]:.3g}"
            )
        if self._options.avoid_collisions:
            found = sweep_path(self._checker, np.stack([now, q]))
            if not found.free:
                words = in_words(self._checker, found.q)
                return CartesianStop.COLLISION, words or "in collision"
        self._path.append(q)
        return CartesianStop.COMPLETE, ""

    def _deviation(self, A: Array, B: Array, q: Array) -> float:
        """Return the distance of the tool from the line between two poses [m]."""
        a, way = A[:3, 3], B[:3, 3] - A[:3, 3]
        square = float(way @ way)
        offset = self._pose(q)[:3, 3] - a
        share = min(1.0, max(0.0, float(offset @ way) / square)) if square > 0.0 else 0.0
        return float(np.linalg.norm(offset - share * way))

    def _why_not(self, q: Array) -> str:
        """Return why the next pose cannot be reached."""
        chain = [self._checker.joint_names[k] for k in self._columns]
        limits = self._checker.limits.select(chain)
        near = (q <= limits.lower + _AT_LIMIT) | (q >= limits.upper - _AT_LIMIT)
        held = [name for name, x in zip(chain, near, strict=True) if x]
        if held:
            return f"{', '.join(held)} at the limit"
        return "no IK solution close to the last configuration: out of reach, or a singularity"

    def _first_jump(self, path: Array) -> int | None:
        """Return the index of the first waypoint that is too far from the previous one."""
        factor = self._options.jump_factor
        if factor == 0.0 or len(path) < 3:
            return None
        steps = self._space.distance(path[:-1], path[1:])
        far = np.flatnonzero(steps > factor * steps.mean())
        return int(far[0]) + 1 if len(far) else None

    def _pose(self, q: Array) -> Array:
        return np.asarray(self._kinematics.pose(q, self._link) @ self._tool)

    def _checked(self, poses: Sequence[ArrayLike]) -> list[Array]:
        found = [rigid_pose(X, f"pose {i}") for i, X in enumerate(poses, start=1)]
        if not found:
            raise InvalidCommand("a straight path needs at least one target pose.")
        return found

    def _steps(self, poses: Sequence[Array]) -> list[Array]:
        steps = [poses[0]]
        for A, B in itertools.pairwise(poses):
            options = self._options
            steps += list(interpolate_poses(A, B, options.max_step, options.max_angle))[1:]
        return steps


def checker_kinematics(checker: CollisionChecker) -> GroupKinematics:
    """Return the kinematics of the checker's joints in the robot's base."""
    return GroupKinematics(checker.robot, checker.joint_names, checker.positions)


def _halfway(A: Array, B: Array) -> Array:
    """Return the pose halfway between two poses."""
    distance = float(np.linalg.norm(B[:3, 3] - A[:3, 3]))
    angle = float(np.linalg.norm(pose_error(A, B)[3:]))
    # Two steps of equal size, by distance or by angle.
    poses = interpolate_poses(A, B, 0.5 * distance or math.inf, 0.5 * angle or math.inf)
    return np.asarray(poses[len(poses) // 2])


def cartesian_motion(
    checker: CollisionChecker,
    path: Array,
    *,
    scaling: tuple[float, float] = (1.0, 1.0),
    avoid_collisions: bool = True,
    effort_share: float = EFFORT_SHARE,
    payload: Payload | None = None,
) -> TimedPath:
    """Return the motion along a Cartesian path; its blended corners are verified, too.

    Args:
        checker: robot and scene.
        path: from :func:`cartesian_path`, with a non-zero motion, shape (k, n).
        scaling: fractions of the velocity and of the acceleration limits.
        avoid_collisions: False to ignore obstacles on lines and corners.
        effort_share: fraction of the effort limits that may be used; 0: not considered.
        payload: for the effort limits; None: nothing is carried.

    Raises:
        InvalidConfig: limits that permit no motion.
        Infeasible: the payload overloads a drive along the path.
        UnknownFrame: the payload is at a link that the robot does not have.
    """
    is_free = checker.exact.are_free if avoid_collisions else None
    efforts = effort_limits(
        checker.robot, checker.joint_names, checker.positions, effort_share, payload
    )
    if payload is not None and efforts is not None and (words := efforts.overload(path)[1]):
        raise Infeasible(f"{too_heavy(payload)}: {words}")
    for blend in (BLEND, 0.0):
        motion = retime(
            path,
            checker.limits,
            velocity_scaling=scaling[0],
            acceleration_scaling=scaling[1],
            blending=CornerBlending(blend, is_free),
            efforts=efforts,
        )
        driven = motion.points(_BETWEEN).positions
        if not avoid_collisions or sweep_path(checker, driven).free:
            break
    # Without blending the motion is on the lines, which were verified one by one.
    return motion


def with_tool_speed(
    motion: TimedPath, checker: CollisionChecker, link: str, max_speed: float
) -> TimedPath:
    """Return a motion, slowed down uniformly so that a link's velocity is limited.

    Args:
        motion: of the checker's joints.
        checker: robot and joints of the motion.
        link: whose origin is considered.
        max_speed: max velocity of the origin [m/s].

    Raises:
        InvalidConfig: the velocity is not above 0.
    """
    if not max_speed > 0.0:
        raise InvalidConfig(f"max_speed is {max_speed} m/s; it must be above 0.", field="max_speed")
    times = motion.sample_times(max(1e-3, motion.duration / 1000.0))
    q, v, _, _ = motion.states(times)
    J = checker_kinematics(checker).jacobian_batch(q, link)[:, :3]
    fastest = float(np.linalg.norm(np.einsum("mij,mj->mi", J, v), axis=1).max())
    return motion.stretched(min(SLOWEST, fastest / max_speed)) if fastest > max_speed else motion


def tool_speeds(checker: CollisionChecker, limits: Mapping[str, float]) -> PointSpeeds | None:
    """Return speed limits of links' origins along paths; None without any.

    Args:
        checker: robot and joints of the paths.
        limits: max speeds by link [m/s].

    Raises:
        InvalidConfig: a speed that is not above 0.
    """
    kinematics = checker_kinematics(checker)

    def jacobian(link: str) -> Callable[[Array], Array]:
        return lambda Q: kinematics.jacobian_batch(Q, link)[:, :3]

    return PointSpeeds(tuple(map(jacobian, limits)), tuple(limits.values())) if limits else None


def cruising(
    motion: TimedPath,
    checker: CollisionChecker,
    limits: Mapping[str, float],
    *,
    scaling: tuple[float, float] = (1.0, 1.0),
    effort_share: float = EFFORT_SHARE,
    payload: Payload | None = None,
) -> TimedPath:
    """Return a motion along the same path with limited speeds of links' origins.

    Args:
        motion: of the checker's joints.
        checker: robot and joints of the motion.
        limits: max speeds by link [m/s].
        scaling: fractions of the velocity and acceleration limits.
        effort_share: fraction of the effort limits that may be used; 0: not considered.
        payload: for the effort limits; None: nothing is carried.

    Raises:
        InvalidConfig: a speed that is not above 0, or limits that permit no motion.
    """
    speeds = tool_speeds(checker, limits)
    if speeds is None or speeds.stretch(motion) <= 1.0:
        return motion
    joints = checker.joint_names
    efforts = effort_limits(checker.robot, joints, checker.positions, effort_share, payload)
    joint_limits = scaled_limits(checker.limits, *scaling)
    return time_optimal(motion.path, joint_limits, efforts=efforts, speeds=speeds)
