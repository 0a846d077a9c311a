# SPDX-License-Identifier: Apache-2.0
"""Differential inverse kinematics composed of tasks and limits, as one quadratic program per step.

Tasks are weighted and may be violated; limits are hard. With the displacement d of a step,

    minimise  sum_i |W_i (J_i d - gain_i e_i)|^2 + (damping + sum_i mu_i |W_i e_i|^2) |d|^2
    subject to  low <= d <= high,  A d <= b,  J_c d = gain_c e_c.

Every limit allows d = 0, so a solution without constraints c always exists, and a robot beyond a
limit may only move back. Positions and distances are linearized: a step of 0.04 rad may exceed
them by some 0.5 mm.
Sources: O. Kanoun, F. Lamiraux and P.-B. Wieber, "Kinematic control of redundant manipulators",
IEEE Trans. Robotics 27(4), 2011; T. Sugihara, "Solvability-unconcerned inverse kinematics by the
Levenberg-Marquardt method", IEEE Trans. Robotics 27(5), 2011 (the term with mu).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.bounded_least_squares import bounded_least_squares
from motion_nodes.core.ik.problem import as_configurations
from motion_nodes.core.robot.bounds import ANY, finite_numbers
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.poses import (
    inverse,
    rate_of_rotation_vector,
    rigid_pose,
    rotation_vector,
    turned,
)
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.numpy_checks import SphereGaps, SpherePairs
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError, UnknownJoint, check_type
from motion_nodes.tolerances import NO_ROTATION
from motion_nodes.typing import Array

BaseMotion = Literal["fixed", "planar", "floating"]
_DIFFERENCE = 1e-5
"""Step of central differences of the centre of mass [rad or m]; errors of 1e-10 of its lever."""
_DEPENDENT = 1e-6
"""Singular values of constraints below this count as 0."""
_SWING = 30.0
"""Largest change of the axis of a turn with the direction turned to; reached 0.1 rad before a half
turn."""
_EMPTY = Scene()
_AXES: Mapping[str, tuple[int, ...]] = {
    "fixed": (), "planar": (0, 1, 5), "differential": (0, 5), "floating": (0, 1, 2, 3, 4, 5),
}  # fmt: skip
_AXIS_NAMES = ("base x", "base y", "base z", "base roll", "base pitch", "base yaw")


class Configuration:
    """Joint positions and base pose of a robot at one time; immutable.

    Velocities have shape (m + n,): m of the base in its own axes, linear [m/s] then angular
    [rad/s], then n of the joints; ``velocity_names`` names them. A fixed base has m = 0, a planar
    one x, y and yaw (x and yaw if it is differential), a floating one all six.
    """

    robot: Robot
    joint_names: tuple[str, ...]
    """Joints in the order of ``q``; mimic joints move with their leaders."""
    q: Array
    """Positions [rad or m], shape (n,), read-only."""
    X_WB: Array
    """Pose of the robot's base frame in the world, shape (4, 4), read-only."""
    velocity_names: tuple[str, ...]
    """Name of each velocity."""

    def __init__(
        self,
        robot: Robot,
        joints: Sequence[str],
        q: ArrayLike,
        *,
        others: ArrayLike | None = None,
        base: BaseMotion = "fixed",
        X_WB: ArrayLike | None = None,
    ) -> None:
        """Create; usually by ``group.configuration(q)``.

        Args:
            robot: description of the robot.
            joints: joints that move.
            q: their positions [rad or m], shape (n,).
            others: positions of all joints of the robot, of which those of the others count, shape
                (r,); None: home.
            base: how the base moves.
            X_WB: pose of the base in the world, shape (4, 4); None: identity.

        Raises:
            InvalidCommand: not a description of a robot, wrong shapes, numbers that are not finite,
                not a rigid pose.
            InvalidConfig: another kind of base, or a car-like base, which turns only while driving.
            UnknownJoint: lists the joints of the robot.
        """
        if not isinstance(robot, Robot):
            raise InvalidCommand(
                f"a configuration is made by group.configuration(q), not of {robot!r:.60}.",
                field="robot",
            )
        if base not in get_args(BaseMotion):
            allowed = ", ".join(get_args(BaseMotion))
            raise InvalidConfig(f"base is {base!r}; allowed: {allowed}.", field="base")
        if base == "planar" and robot.kind == "ackermann":
            raise InvalidConfig(
                f"{robot.name} turns only while it drives, which no linear program expresses; use "
                "base='fixed', and drive it by its controller.", field="base",
            )  # fmt: skip
        axes = _AXES["differential" if (base, robot.kind) == ("planar", "differential") else base]
        positions = robot.home if others is None else np.asarray(others, np.float64)
        self.robot, self.joint_names = robot, tuple(joints)
        self.others: Array = frozen(positions)
        self._kinematics = GroupKinematics(robot, self.joint_names, positions)
        self._axes = np.eye(6)[:, list(axes)]
        self.velocity_names = (*(_AXIS_NAMES[i] for i in axes), *self.joint_names)
        self.q = frozen(as_configurations(q, self.joint_names, "q")[0])
        self.X_WB = frozen(np.eye(4) if X_WB is None else rigid_pose(X_WB, "X_WB"))

    def __repr__(self) -> str:
        """Return robot, positions and base."""
        q = ", ".join(f"{x:.3g}" for x in self.q)
        x, y, z = self.X_WB[:3, 3]
        base = f"; base at ({x:.3g}, {y:.3g}, {z:.3g})" if self._axes.size else ""
        return f"Configuration({self.robot.name}: q [{q}]{base})"

    @property
    def base_size(self) -> int:
        """Number of velocities of the base."""
        return int(self._axes.shape[1])

    def pose(self, frame: str) -> Array:
        """Return ``X_WF``, the pose of a frame in the world, shape (4, 4).

        Args:
            frame: name of the frame.

        Raises:
            UnknownFrame: lists the frames.
        """
        return np.asarray(self.X_WB @ self._kinematics.pose(self.q, frame))

    def jacobian(self, frame: str) -> Array:
        """Return the Jacobian of a frame in the axes of the world, shape (6, m + n).

        Rows: linear velocity of the frame's origin, then angular velocity.

        Args:
            frame: name of the frame.

        Raises:
            UnknownFrame: lists the frames.
        """
        return self.pose_and_jacobian(frame)[1]

    def pose_and_jacobian(self, frame: str) -> tuple[Array, Array]:
        """Return :meth:`pose` and :meth:`jacobian` at about the cost of one.

        Args:
            frame: name of the frame.

        Raises:
            UnknownFrame: lists the frames.
        """
        X_BF, J_B = self._kinematics.pose_and_jacobian(self.q, frame)
        R, m = self.X_WB[:3, :3], self.base_size
        J = np.empty((6, len(self.velocity_names)))
        J[:3, m:], J[3:, m:] = R @ J_B[:3], R @ J_B[3:]
        if m:
            J[:, :m] = self.base_jacobian(X_BF[:3, 3])
        return np.asarray(self.X_WB @ X_BF), J

    def center_of_mass(self) -> tuple[Array, Array]:
        """Return the centre of mass of all links in the world [m], and its Jacobian.

        Returns:
            Shapes (3,) and (3, m + n).

        Raises:
            InvalidConfig: the links have no masses.
        """
        tree, n = self.robot.tree, len(self.q)
        solid = [(tree.frame_names.index(link.name), link.inertial) for link in tree.links.values()
                 if link.inertial is not None and link.inertial.mass > 0.0]  # fmt: skip
        if not solid:
            raise InvalidConfig(f"the links of {self.robot.name} have no masses.")
        rows = [row for row, _ in solid]
        mass = np.array([inertial.mass for _, inertial in solid])
        centres = np.array([inertial.X_LC[:3, 3] for _, inertial in solid])
        step = _DIFFERENCE * np.eye(n)
        Q = np.concatenate([self.q[None], self.q + step, self.q - step])
        X = self._kinematics.frames_batch(Q)[:, rows]
        points = np.einsum("klij,lj->kli", X[..., :3, :3], centres) + X[..., :3, 3]
        c_B = np.einsum("l,kli->ki", mass / mass.sum(), points)
        R, m = self.X_WB[:3, :3], self.base_size
        J = np.empty((3, len(self.velocity_names)))
        J[:, m:] = R @ (c_B[1 : n + 1] - c_B[n + 1 :]).T / (2.0 * _DIFFERENCE)
        J[:, :m] = self.base_jacobian(c_B[0])[:3]
        return np.asarray(self.X_WB[:3, :3] @ c_B[0] + self.X_WB[:3, 3]), J

    def integrate(self, velocity: ArrayLike, dt: float) -> Self:
        """Return the configuration after a constant velocity.

        Args:
            velocity: velocities of base and joints, shape (m + n,).
            dt: time [s].

        Raises:
            InvalidCommand: another length, or numbers that are not finite.
        """
        v = finite_numbers(velocity, len(self.velocity_names), "velocity")
        if not np.isfinite(dt):
            raise InvalidCommand(f"dt is {dt} s; it must be finite.", field="dt")
        other, m = copy.copy(self), self.base_size
        other.q = frozen(as_configurations(self.q + v[m:] * dt, self.joint_names, "q")[0])
        if m:
            other.X_WB = frozen(self.X_WB @ _exponential(self._axes @ v[:m] * dt))
        return other

    def base_jacobian(self, p_B: Array) -> Array:
        """Return the Jacobian of a point of the robot by the base's velocities, shape (6, m).

        Args:
            p_B: the point in the base frame [m], shape (3,).
        """
        R, (x, y, z) = self.X_WB[:3, :3], p_B.tolist()
        skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        S = self._axes
        return np.concatenate([R @ (S[:3] - skew @ S[3:]), R @ S[3:]])


def _exponential(twist: Array) -> Array:
    """Return the pose after a twist (linear, angular) in the body's axes, shape (4, 4).

    Source: K. Lynch and F. Park, "Modern Robotics", 2017, eq. 3.88.
    """
    v, w = twist[:3], twist[3:]
    X, angle = np.eye(4), float(np.linalg.norm(w))
    X[:3, :3] = turned(np.eye(3), w)
    # Of a small angle the first terms of the series; their error is below rounding.
    a = (1.0 - np.cos(angle)) / angle**2 if angle > 1e-4 else 0.5
    b = (angle - np.sin(angle)) / angle**3 if angle > 1e-4 else 1.0 / 6.0
    X[:3, 3] = v + a * np.cross(w, v) + b * np.cross(w, np.cross(w, v))
    return X


# ---- tasks


class Task(ABC):
    """Something to be reached or kept, with a weight; subclasses state error and Jacobian."""

    gain: float
    """Share of the error that a step shall remove, above 0 to 1; smaller is smoother."""
    lm_damping: float
    """Damping that grows with the error, for targets out of reach; 0 or above."""

    def __init__(self, weight: ArrayLike, gain: float, lm_damping: float) -> None:
        """Check the numbers.

        Args:
            weight: cost of each component of the error, 0 or above.
            gain: see the attribute.
            lm_damping: see the attribute.

        Raises:
            InvalidConfig: a number out of range.
        """
        self.weight = _weights(weight)
        if not 0.0 < gain <= 1.0:
            raise InvalidConfig(f"gain is {gain}; it must be above 0 and at most 1.", field="gain")
        if not 0.0 <= lm_damping < np.inf:
            raise InvalidConfig(f"lm_damping is {lm_damping}; it must be 0 or above and finite.",
                                field="lm_damping")  # fmt: skip
        self.gain, self.lm_damping = float(gain), float(lm_damping)

    def __repr__(self) -> str:
        """Return kind and weight."""
        return f"{type(self).__name__}(weight {self.weight.tolist()}, gain {self.gain:g})"

    @abstractmethod
    def linearized(self, now: Configuration) -> tuple[Array, Array]:
        """Return the error e, shape (k,), and J, shape (k, m + n), so that e changes by -J d.

        Args:
            now: the configuration.
        """

    def error(self, now: Configuration) -> Array:
        """Return the error, shape (k,); zero if the task is fulfilled.

        Args:
            now: the configuration.
        """
        return self.linearized(now)[0]


class FrameTask(Task):
    """A frame at a pose, in the world or in another frame of the robot.

    The error is the way to the target in its axes: position [m], then rotation vector [rad].
    """

    def __init__(
        self,
        frame: str,
        target: ArrayLike | Configuration,
        *,
        reference: str | None = None,
        weights: float | tuple[ArrayLike, ArrayLike] = 1.0,
        gain: float = 1.0,
        lm_damping: float = 0.0,
    ) -> None:
        """Create.

        Args:
            frame: frame of the robot.
            target: its pose, shape (4, 4), or its position alone [m], shape (3,); or a
                configuration in which it is there.
            reference: frame of the robot in which the pose is given; None: the world.
            weights: of position [1/m] and of rotation [1/rad], or one for both; each a number, or
                three for the axes of the target, of which 0 leaves an axis free.
            gain: see :attr:`Task.gain`.
            lm_damping: see :attr:`Task.lm_damping`.

        Raises:
            InvalidCommand: not a rigid pose or position.
            InvalidConfig: a number out of range.
            UnknownFrame: lists the frames, when it is used.
        """
        pair = weights if isinstance(weights, tuple | list) else (weights, weights)
        if len(pair) != 2:
            raise InvalidConfig("weights are two: of position, and of rotation.", field="weights")
        each = [np.broadcast_to(_weights(w, 3), (3,)) for w in pair]
        super().__init__(np.concatenate(each), gain, lm_damping)
        self._weights, self.frame, self.reference = self.weight, frame, reference
        if isinstance(target, Configuration):
            X_WF = target.pose(frame)
            target = X_WF if reference is None else inverse(target.pose(reference)) @ X_WF
        self.target = target

    def __repr__(self) -> str:
        """Return frame, reference and position of the target."""
        x, y, z = self._X_RT[:3, 3]
        where = self.reference or "the world"
        return f"FrameTask({self.frame} to ({x:.3g}, {y:.3g}, {z:.3g}) in {where})"

    @property
    def target(self) -> Array:
        """Pose of the frame in the world or reference, shape (4, 4); may be set at any time.

        Set to a position, shape (3,), it leaves the rotation free.
        """
        return self._X_RT

    @target.setter
    def target(self, X_RT: ArrayLike) -> None:
        try:
            position = np.asarray(X_RT, np.float64).shape == (3,)
        except (TypeError, ValueError):
            position = False
        X = np.eye(4) if position else rigid_pose(X_RT, "target")
        if position:
            X[:3, 3] = finite_numbers(X_RT, 3, "target")
        self._X_RT = frozen(X)
        self.weight = np.where((np.arange(6) < 3) | (not position), self._weights, 0.0)

    def linearized(self, now: Configuration) -> tuple[Array, Array]:
        """Return error, shape (6,), and Jacobian, shape (6, m + n).

        Args:
            now: the configuration.

        Raises:
            UnknownFrame: lists the frames.
        """
        X_WF, J = now.pose_and_jacobian(self.frame)
        X_WT = self._X_RT
        if self.reference is not None:
            X_WR, J_R = now.pose_and_jacobian(self.reference)
            X_WT = X_WR @ X_WT
            J = J - J_R
            J[:3] += np.cross(X_WF[:3, 3] - X_WR[:3, 3], J_R[3:], axisb=0, axisc=0)
        R_TW, R_FW = X_WT[:3, :3].T, X_WF[:3, :3].T
        phi = np.array(rotation_vector(R_FW @ X_WT[:3, :3]))
        return (
            np.concatenate([R_TW @ (X_WT[:3, 3] - X_WF[:3, 3]), phi]),
            np.concatenate([R_TW @ J[:3], rate_of_rotation_vector(phi) @ R_FW @ J[3:]]),
        )


class GazeTask(Task):
    """An axis of a frame, such as of a camera or a welding torch, through a point.

    The error is the shortest turn of the axis to the point, a rotation vector in the axes of the
    frame [rad]; the roll about the axis and the distance are free.
    """

    def __init__(
        self,
        frame: str,
        target: ArrayLike,
        *,
        axis: ArrayLike = (0.0, 0.0, 1.0),
        reference: str | None = None,
        weight: ArrayLike = 1.0,
        gain: float = 1.0,
    ) -> None:
        """Create.

        Args:
            frame: frame of the robot.
            target: the point [m], shape (3,); may be set at any time.
            axis: direction of the axis in the frame, of any length, shape (3,).
            reference: frame of the robot in which the point is given, such as the other hand; None:
                the world.
            weight: of each component [1/rad], a number or shape (3,).
            gain: see :attr:`Task.gain`.

        Raises:
            InvalidCommand: an axis without length, or not three finite numbers.
            InvalidConfig: a number out of range.
            UnknownFrame: lists the frames, when it is used.
        """
        super().__init__(weight, gain, 0.0)
        given = finite_numbers(axis, 3, "axis")
        length = float(np.linalg.norm(given))
        if not length > 0.0:
            raise InvalidCommand("the axis of a gaze has no length.", field="axis")
        self.frame, self.reference = frame, reference
        self.axis: Array = frozen(given / length)
        finite_numbers(target, 3, "target")
        self.target: ArrayLike = target

    def __repr__(self) -> str:
        """Return frame, target and reference."""
        x, y, z = np.asarray(self.target, np.float64).tolist()
        where = self.reference or "the world"
        return f"GazeTask({self.frame} at ({x:.3g}, {y:.3g}, {z:.3g}) in {where})"

    def linearized(self, now: Configuration) -> tuple[Array, Array]:
        """Return error, shape (3,), and Jacobian, shape (3, m + n).

        Args:
            now: the configuration.

        Raises:
            InvalidCommand: the target is not three finite numbers, or at the frame's origin.
            UnknownFrame: lists the frames.
        """
        X_WF, J = now.pose_and_jacobian(self.frame)
        t_W, J_t = finite_numbers(self.target, 3, "target"), np.zeros_like(J[:3])
        if self.reference is not None:
            X_WR, J_R = now.pose_and_jacobian(self.reference)
            t_W = X_WR[:3, :3] @ t_W
            J_t = J_R[:3] + np.cross(J_R[3:], t_W, axisa=0, axisc=0)
            t_W = t_W + X_WR[:3, 3]
        R_FW = X_WF[:3, :3].T
        t_F = R_FW @ (t_W - X_WF[:3, 3])
        distance = float(np.linalg.norm(t_F))
        if not distance > 0.0:
            raise InvalidCommand(
                f"the target of the gaze is at the origin of {self.frame}: it has no direction.",
                field="target",
            )
        d = t_F / distance
        # How the direction d changes, in the axes of the frame.
        J_d = R_FW @ (J_t - J[:3]) - np.cross(R_FW @ J[3:], t_F, axisa=0, axisc=0)
        J_d = (J_d - np.outer(d, d @ J_d)) / distance
        phi, change = _turn_between(self.axis, d)
        return phi, -change @ J_d


def _turn_between(a: Array, d: Array) -> tuple[Array, Array]:
    """Return the shortest rotation vector from one direction to another, and its change with d.

    Args:
        a: unit vector, shape (3,).
        d: likewise; of opposite ones one of the half turns.

    Returns:
        Shapes (3,) and (3, 3).
    """
    cross, cosine = np.cross(a, d), float(a @ d)
    sine = float(np.linalg.norm(cross))
    skew = np.cross(a, np.eye(3)).T  # skew @ x = a x x
    if sine < NO_ROTATION and cosine > 0.0:
        return cross, skew
    if sine < NO_ROTATION:
        n = np.cross(a, np.eye(3)[np.argmin(np.abs(a))])
        n /= np.linalg.norm(n)
        return np.pi * n, np.outer(n, np.cross(n, d))
    n, angle = cross / sine, float(np.arctan2(sine, cosine))
    along = np.outer(n, np.cross(n, d))
    # Without a bound the axis of a half turn would count more than the turn itself.
    swing = min(angle / sine, _SWING)
    return angle * n, along + swing * (skew - np.outer(n, n @ skew))


class PostureTask(Task):
    """Joints at positions [rad or m]; of continuous joints the shorter way counts."""

    def __init__(
        self,
        target: ArrayLike | Configuration,
        *,
        weight: ArrayLike = 1e-2,
        gain: float = 1.0,
        lm_damping: float = 0.0,
    ) -> None:
        """Create.

        Args:
            target: positions [rad or m], shape (n,), or a configuration.
            weight: of each joint [1/rad or 1/m], a number or shape (n,).
            gain: see :attr:`Task.gain`.
            lm_damping: see :attr:`Task.lm_damping`.

        Raises:
            InvalidConfig: a number out of range.
            InvalidCommand: another number of joints, when it is used.
        """
        super().__init__(weight, gain, lm_damping)
        self.target: ArrayLike = target.q if isinstance(target, Configuration) else target

    def linearized(self, now: Configuration) -> tuple[Array, Array]:
        """Return error, shape (n,), and Jacobian, shape (n, m + n).

        Args:
            now: the configuration.

        Raises:
            InvalidCommand: the target has another number of joints.
        """
        target = as_configurations(self.target, now.joint_names, "target")[0]
        limits = now.robot.limits.select(now.joint_names)
        return limits.turns.difference(now.q, target), _joint_columns(now)


class CenterOfMassTask(Task):
    """The centre of mass of all links at a point of the world; payloads are not part of it."""

    def __init__(
        self,
        target: ArrayLike | Configuration,
        *,
        weight: ArrayLike = 1.0,
        gain: float = 1.0,
        lm_damping: float = 0.0,
    ) -> None:
        """Create.

        Args:
            target: position in the world [m], shape (3,), or a configuration.
            weight: of each axis of the world [1/m], a number or shape (3,); 0 leaves it free, as
                z where the centre of mass shall be above the feet.
            gain: see :attr:`Task.gain`.
            lm_damping: see :attr:`Task.lm_damping`.

        Raises:
            InvalidCommand: not three finite numbers.
            InvalidConfig: a number out of range; the links have no masses.
        """
        super().__init__(weight, gain, lm_damping)
        if isinstance(target, Configuration):
            target = target.center_of_mass()[0]
        self.target: ArrayLike = target

    def linearized(self, now: Configuration) -> tuple[Array, Array]:
        """Return error [m], shape (3,), and Jacobian, shape (3, m + n).

        Args:
            now: the configuration.

        Raises:
            InvalidCommand: the target is not three finite numbers.
        """
        c_W, J = now.center_of_mass()
        return finite_numbers(self.target, 3, "target") - c_W, J


class DampingTask(Task):
    """As little motion as possible, such as of a base that shall move only where the arm ends."""

    def __init__(self, weight: ArrayLike = 1e-2) -> None:
        """Create.

        Args:
            weight: of each velocity in the order of ``velocity_names``, a number or shape (m + n,).

        Raises:
            InvalidConfig: a weight that is negative or not finite.
        """
        super().__init__(weight, 1.0, 0.0)

    def linearized(self, now: Configuration) -> tuple[Array, Array]:
        """Return no error, shape (m + n,), and the identity.

        Args:
            now: the configuration.
        """
        size = len(now.velocity_names)
        return np.zeros(size), np.eye(size)


# ---- limits


class LimitRows(NamedTuple):
    """Bounds of a displacement d: ``low <= d <= high`` and ``A d <= b``; all allow d = 0."""

    low: Array
    """Lower bounds of each component [rad or m], 0 or below, shape (m + n,); -inf for none."""
    high: Array
    """Upper bounds, 0 or above, shape (m + n,); inf for none."""
    A: Array
    """Rows of further bounds, shape (k, m + n)."""
    b: Array
    """Their right sides, 0 or above, shape (k,)."""


class Limit(ABC):
    """Something that no step may exceed."""

    @abstractmethod
    def rows(self, now: Configuration, dt: float) -> LimitRows:
        """Return the bounds of the displacement of a step.

        Args:
            now: the configuration.
            dt: duration of the step [s].
        """


class ConfigurationLimit(Limit):
    """Joints within their position limits, those of their mimic joints included."""

    def __init__(self, gain: float = 0.95) -> None:
        """Create.

        Args:
            gain: share of the distance to a limit that a step may use, above 0 to 1.

        Raises:
            InvalidConfig: a gain out of range.
        """
        self.gain = _share(gain)

    def rows(self, now: Configuration, dt: float) -> LimitRows:
        """Return the bounds of the displacement of a step.

        Args:
            now: the configuration.
            dt: duration of the step [s].
        """
        limits = now.robot.limits.select(now.joint_names)
        low, high, A, b = _no_rows(now)
        m = now.base_size
        low[m:] = -self.gain * np.maximum(now.q - limits.lower, 0.0)
        high[m:] = self.gain * np.maximum(limits.upper - now.q, 0.0)
        return LimitRows(low, high, A, b)


class VelocityLimit(Limit):
    """Velocities of joints and base within bounds."""

    def __init__(
        self, joints: ArrayLike | Mapping[str, float] | None = None, base: ArrayLike | None = None
    ) -> None:
        """Create.

        Args:
            joints: max velocities [rad/s or m/s], a number, shape (n,), or by joint, where those
                that are not named keep the robot's; None: the robot's.
            base: of the base [m/s, rad/s], a number or shape (m,); None: unlimited.

        Raises:
            InvalidConfig: a negative limit, or NaN.
            UnknownJoint, InvalidCommand: another joint or number of joints, when it is used.
        """
        self.named: dict[str, float] = {}
        self.joints: ArrayLike | None = None
        if isinstance(joints, Mapping):
            self.named = {str(k): float(x) for k, x in joints.items()}
        else:
            self.joints = joints
        for value in (list(self.named.values()), self.joints, base):
            if value is not None:
                _weights(value, endless=True)
        self.base = base

    def rows(self, now: Configuration, dt: float) -> LimitRows:
        """Return the bounds of the displacement of a step.

        Args:
            now: the configuration.
            dt: duration of the step [s].
        """
        _, high, A, b = _no_rows(now)
        m, names = now.base_size, now.joint_names
        speeds = now.robot.limits.select(names).velocity.copy()
        if self.joints is not None:
            speeds = _fitting(self.joints, len(names), "velocity limits of the joints")
        for name, value in self.named.items():
            if name not in names:
                raise UnknownJoint(name, names, "the configuration")
            speeds[names.index(name)] = value
        high[m:] = speeds * dt
        if self.base is not None:
            high[:m] = _fitting(self.base, m, "velocity limits of the base") * dt
        return LimitRows(-high, high, A, b)


class PositionLimit(Limit):
    """The origin of a frame within a box of the world."""

    def __init__(
        self, frame: str, lower: ArrayLike, upper: ArrayLike, *, gain: float = 0.95
    ) -> None:
        """Create.

        Args:
            frame: frame of the robot.
            lower: lower corner [m], shape (3,); -inf for none.
            upper: upper corner [m], shape (3,); inf for none.
            gain: share of the distance to a side that a step may use, above 0 to 1.

        Raises:
            InvalidConfig: not three numbers each, the lower above the upper, a gain out of range.
            UnknownFrame: lists the frames, when it is used.
        """
        self.frame, self.gain = frame, _share(gain)
        try:
            self.lower, self.upper = frozen(lower, (3,)), frozen(upper, (3,))
        except (TypeError, ValueError):
            self.lower, self.upper = frozen(np.full(3, np.nan)), frozen(np.zeros(3))
        if not (self.lower <= self.upper).all():
            raise InvalidConfig(
                f"a box needs three lower and three upper sides, none above the other; got "
                f"{lower!r} and {upper!r}.", field="lower",
            )  # fmt: skip

    def rows(self, now: Configuration, dt: float) -> LimitRows:
        """Return the bounds of the displacement of a step.

        Args:
            now: the configuration.
            dt: duration of the step [s].
        """
        low, high, _, _ = _no_rows(now)
        X, J = now.pose_and_jacobian(self.frame)
        room = np.concatenate([self.upper - X[:3, 3], X[:3, 3] - self.lower])
        used = np.isfinite(room)
        A = np.concatenate([J[:3], -J[:3]])[used]
        return LimitRows(low, high, A, self.gain * np.maximum(room[used], 0.0))


class CollisionLimit(Limit):
    """Links apart from each other and from the world, by the collision spheres.

    A distance below ``detection`` may shrink by a share of what is above ``distance``; below it, it
    may only grow. Source: B. Faverjon and P. Tournassoud, "A local based approach for path planning
    of manipulators with a high number of degrees of freedom", ICRA 1987 (velocity damper).
    """

    def __init__(
        self,
        world: World | None = None,
        *,
        distance: float = 0.01,
        detection: float = 0.1,
        gain: float = 0.5,
    ) -> None:
        """Create.

        Args:
            world: obstacles, which may move; None: self-collisions only.
            distance: min distance from the world and between links [m].
            detection: distance from which on it is limited [m].
            gain: share of the distance left that a step may use, above 0 to 1.

        Raises:
            InvalidConfig: ``detection`` is not above ``distance``, or a number out of range.
        """
        if not 0.0 <= distance < detection < np.inf:
            raise InvalidConfig(
                f"distance is {distance} m and detection {detection} m; 0 <= distance < detection "
                "is needed.", field="detection",
            )  # fmt: skip
        check_type(world, World, "world")
        self.world, self.distance, self.detection = world, distance, detection
        self.gain = _share(gain)
        self._of: tuple[Robot, tuple[str, ...], bytes] | None = None
        self._checker: CollisionChecker | None = None
        self._found: SpherePairs | None = None

    def rows(self, now: Configuration, dt: float) -> LimitRows:
        """Return the bounds of the displacement of a step.

        Args:
            now: the configuration.
            dt: duration of the step [s].
        """
        low, high, _, _ = _no_rows(now)
        pairs, m = self._pairs(now), now.base_size
        R, p = now.X_WB[:3, :3], now.X_WB[:3, 3]
        spheres = pairs.centres(now.q[None])[0]
        gaps = pairs.gaps(spheres @ R.T + p, self.detection)
        # Of one sphere's gaps to a body, the least.
        order = np.lexsort((gaps.distance, gaps.first, gaps.pair))
        keys = np.stack([gaps.pair, gaps.first])[:, order]
        kept = order[np.append(True, (np.diff(keys) != 0).any(axis=0))[: len(order)]]
        of_base = gaps.normal @ R
        near = SphereGaps(
            gaps.distance[kept], of_base[kept], gaps.first[kept], gaps.second[kept],
            gaps.pair[kept],
        )  # fmt: skip
        A = np.zeros((len(kept), len(now.velocity_names)))
        if len(kept):
            A[:, m:] = -pairs.gradients(now.q, near)
        for k in np.flatnonzero(near.second < 0) if m else ():
            A[k, :m] = -near.normal[k] @ R.T @ now.base_jacobian(spheres[near.first[k]])[:3]
        return LimitRows(low, high, A, self.gain * np.maximum(near.distance - self.distance, 0.0))

    def _pairs(self, now: Configuration) -> SpherePairs:
        """Return the pairs of the robot and the present world, in the base frame."""
        scene = _EMPTY if self.world is None else self.world.scene
        key = (now.robot, now.joint_names, now.others.tobytes())
        if self._checker is None or self._of != key:
            self._checker, self._of, self._found = (
                CollisionChecker(now.robot, now.joint_names, scene=scene), key, None,
            )  # fmt: skip
            self._checker.set_positions(now.others)
        if self._found is None or self._checker.scene is not scene:
            self._checker.set_scene(scene)
            self._found = self._checker.sphere_pairs()
        return self._found


# ---- one step


def solve_step(
    now: Configuration,
    tasks: Task | Sequence[Task],
    limits: Limit | Sequence[Limit] = (),
    *,
    constraints: Task | Sequence[Task] = (),
    dt: float,
    damping: float = 1e-6,
) -> Array:
    """Return the velocities that serve all tasks best within all limits.

    Args:
        now: the configuration.
        tasks: one or several.
        limits: hard limits; rows of a :class:`CollisionLimit` or :class:`PositionLimit` need the
            extra ``qp`` (the solver DAQP), the others nothing.
        constraints: tasks that are kept exactly, to first order, such as feet that stand; of their
            weights only zero counts, which leaves a component free. Need the extra ``qp``.
        dt: duration of the step [s].
        damping: weight of the squared displacement; above 0.

    Returns:
        Velocities of base and joints [m/s, rad/s], shape (m + n,); see :class:`Configuration`.

    Raises:
        InvalidCommand: no configuration or task, a step that is not above 0, weights of another
            length.
        InvalidConfig: a damping that is not above 0 and finite.
        MotionError: the extra is missing; the constraints cannot be kept within the limits, or
            limits of your own contradict each other.
    """
    if not isinstance(now, Configuration):
        raise InvalidCommand(
            f"a step begins at a configuration, of group.configuration(q), not {now!r:.60}.",
            field="now",
        )
    tasks = [tasks] if isinstance(tasks, Task) else list(tasks)
    limits = [limits] if isinstance(limits, Limit) else list(limits)
    kept = [constraints] if isinstance(constraints, Task) else list(constraints)
    for things, kind in (([*tasks, *kept], Task), (limits, Limit)):
        for thing in things:
            if not isinstance(thing, kind):
                raise InvalidCommand(f"{thing!r:.80} is not a {kind.__name__}.", field="tasks")
    if not tasks:
        raise InvalidCommand("no task is given; at least one is needed.", field="tasks")
    if not (isinstance(dt, Real) and 0.0 < dt < np.inf):
        raise InvalidCommand(f"dt is {dt!r} s; it must be above 0 and finite.", field="dt")
    if not 0.0 < damping < np.inf:
        raise InvalidConfig(f"damping is {damping}; it must be above 0.", field="damping")
    J, e = [], []
    for task in tasks:
        error, jacobian, w = _weighted(task, now)
        J.append(w[:, None] * jacobian)
        e.append(task.gain * w * error)
        damping += task.lm_damping * float((w * error) @ (w * error))
    low, high, _, _ = _no_rows(now)
    found = [limit.rows(now, dt) for limit in limits]
    for rows in found:
        low, high = np.maximum(low, rows.low), np.minimum(high, rows.high)
    A = np.concatenate([rows.A for rows in found]) if found else np.empty((0, len(low)))
    b = np.concatenate([rows.b for rows in found]) if found else np.empty(0)
    tall, aim = np.concatenate(J), np.concatenate(e)
    if kept:
        return (
            _quadratic_program(tall, aim, damping, LimitRows(low, high, A, b), _exact(kept, now))
            / dt
        )
    if not len(b):
        return bounded_least_squares(tall, aim, damping, np.zeros(len(low)), low, high) / dt
    return _quadratic_program(tall, aim, damping, LimitRows(low, high, A, b)) / dt


def _weighted(task: Task, now: Configuration) -> tuple[Array, Array, Array]:
    """Return error, shape (k,), Jacobian, shape (k, m + n), and weights of a task, shape (k,)."""
    error, jacobian = task.linearized(now)
    w = _fitting(task.weight, len(error), type(task).__name__)
    return error, jacobian, np.broadcast_to(w, error.shape)


def _exact(tasks: Sequence[Task], now: Configuration) -> tuple[Array, Array]:
    """Return independent rows C and their values c, so that ``C d = c`` keeps the tasks.

    Rows that depend on others, such as of two feet on a base that does not move, or that no joint
    changes, are left out.
    """
    J, e = [], []
    for task in tasks:
        error, jacobian, w = _weighted(task, now)
        J.append(jacobian[w > 0.0])
        e.append(task.gain * error[w > 0.0])
    U, s, V = np.linalg.svd(np.concatenate(J), full_matrices=False)
    used = s > _DEPENDENT * max(1.0, float(s.max(initial=0.0)))
    return V[used], (U.T @ np.concatenate(e))[used] / s[used]


def _quadratic_program(
    J: Array, e: Array, damping: float, rows: LimitRows, exact: tuple[Array, Array] | None = None
) -> Array:
    """Return the d within the rows that minimises ``|J d - e|^2 + damping |d|^2``.

    Args:
        J: shape (k, m + n).
        e: shape (k,).
        damping: above 0.
        rows: bounds.
        exact: rows C and values c with ``C d = c``.
    """
    try:
        import daqp
    except ModuleNotFoundError:
        raise MotionError(
            "constraints, and limits of collisions and frames, need the solver DAQP: pip install "
            "motion_nodes[qp]."
        ) from None
    H = J.T @ J + damping * np.eye(J.shape[1])
    C, c = exact if exact is not None else (rows.A[:0], rows.b[:0])
    upper = np.concatenate([rows.high, rows.b, c])
    lower = np.concatenate([rows.low, np.full(len(rows.b), -np.inf), c])
    sense = np.repeat(np.array([0, 5], np.int32), [len(upper) - len(c), len(c)])
    A = np.ascontiguousarray(np.concatenate([rows.A, C]))
    d, _, flag, _ = daqp.solve(H, -J.T @ e, A, upper, lower, sense)
    if flag != 1:
        raise MotionError(
            f"the quadratic program has no solution (DAQP reports {flag}): "
            + ("the constraints cannot be kept within the limits; a smaller gain asks for less."
               if len(c) else "limits contradict each other.")
        )  # fmt: skip
    return np.asarray(d).clip(rows.low, rows.high)


def _no_rows(now: Configuration) -> LimitRows:
    size = len(now.velocity_names)
    endless = np.full(size, np.inf)
    return LimitRows(-endless, endless, np.empty((0, size)), np.empty(0))


def _joint_columns(now: Configuration) -> Array:
    return np.eye(len(now.velocity_names))[now.base_size :]


def _weights(value: ArrayLike, size: int | None = None, *, endless: bool = False) -> Array:
    """Return numbers of 0 or above, as given or one for all ``size``; may be infinite if said."""
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    fits = size is None or array.shape in ((), (size,))
    most = np.inf if endless else ANY.max
    if not fits or array.ndim > 1 or not ((array >= 0.0) & (array <= most)).all():
        count = "a number or a row of them" if size is None else f"one number or {size}"
        raise InvalidConfig(
            f"{count} of 0 to {most:g} is needed, got {value!r:.80}.", field="weight"
        )
    return array


def _fitting(value: ArrayLike, size: int, what: str) -> Array:
    array = np.asarray(value, np.float64)
    if array.shape not in ((), (size,)):
        raise InvalidCommand(f"{what}: one number or {size} are needed, got {array.size}.",
                             field=what)  # fmt: skip
    return array


def _share(gain: float) -> float:
    if not 0.0 < gain <= 1.0:
        raise InvalidConfig(f"gain is {gain}; it must be above 0 and at most 1.", field="gain")
    return float(gain)
