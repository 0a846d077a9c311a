# SPDX-License-Identifier: Apache-2.0
"""Requests, results and pose errors of inverse kinematics, common to all solvers.

Inputs are validated here, and failures put into words. Pose errors are computed in plain floats,
which for one pose is faster than NumPy.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.robot.bounds import JOINT_STATE
from motion_nodes.core.robot.poses import as_pose, bad_pose, inverse, rotation_vector
from motion_nodes.core.robot.result_files import save_result
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.tolerances import EQUAL_POSITIONS, LIMIT_ROUNDING
from motion_nodes.typing import Array

Validity = Callable[[Array], bool | str]
"""Checks joint positions q, shape (n,): True if valid, else False or the reason."""

_IDENTITY = np.eye(3)


@dataclass(frozen=True)
class IkTolerance:
    """Tolerance of the pose error.

    A scalar bounds the norm of the error. Three numbers bound its components along the axes of the
    target frame separately; an axis with an infinite tolerance is unconstrained.
    """

    position: float | tuple[float, float, float] = 1e-3
    """Position tolerance [m]."""
    orientation: float | tuple[float, float, float] = 0.01
    """Orientation tolerance, for the rotation vector [rad]."""

    def __post_init__(self) -> None:
        for name, value in (("position", self.position), ("orientation", self.orientation)):
            try:
                numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
            except (TypeError, ValueError):
                numbers = np.zeros(1)
            if numbers.shape not in ((1,), (3,)) or not (numbers > 0.0).all():
                raise InvalidConfig(
                    f"{name} tolerance is {value}; allowed is one number or three, each above 0 "
                    "(infinity: unconstrained axis)."
                )
            kept = float(numbers[0]) if numbers.size == 1 else tuple(map(float, numbers))
            object.__setattr__(self, name, kept)
        if not np.isfinite(self.axes).any() and not np.isfinite(self.lengths).any():
            raise InvalidConfig("all axes are free; at least one tolerance must be finite.")

    @classmethod
    def position_only(cls, position: float | tuple[float, float, float] = 1e-3) -> IkTolerance:
        """Return a tolerance that accepts any orientation.

        Args:
            position: position tolerance [m].
        """
        return cls(position, math.inf)

    @property
    def axes(self) -> Array:
        """Max absolute value of each component, position before rotation [m, rad], shape (6,)."""
        return np.concatenate([self._three(self.position), self._three(self.orientation)])

    @property
    def lengths(self) -> Array:
        """Max norm of position and rotation error [m, rad], shape (2,)."""
        sides = (self.position, self.orientation)
        return np.array([x if isinstance(x, float) else math.inf for x in sides])

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which components are unconstrained, shape (6,)."""
        return np.isinf(self.axes) & np.isinf(np.repeat(self.lengths, 3))

    @property
    def max_position(self) -> float:
        """Max distance from the target [m]; inf if an axis is unconstrained."""
        return min(float(self.lengths[0]), float(np.linalg.norm(self.axes[:3])))

    def accepts(self, errors: Array) -> bool:
        """Return whether errors of shape (6,), as in :class:`IkResult`, are within tolerance."""
        lengths = np.array([np.linalg.norm(errors[:3]), np.linalg.norm(errors[3:])])
        within = np.abs(errors) <= self.axes
        return bool(within.all() and (lengths <= self.lengths).all())

    @staticmethod
    def _three(value: float | tuple[float, float, float]) -> Array:
        return np.full(3, math.inf) if isinstance(value, float) else np.array(value)


class Objective(Protocol):
    """Objective for redundant joints, minimised in the null space."""

    def value(self, q: Array) -> float:
        """Return the value at joint positions [rad or m], shape (n,); lower is better."""

    def gradient(self, q: Array) -> Array:
        """Return the gradient, shape (n,)."""


@dataclass(frozen=True)
class IkSettings:
    """Settings of a solver."""

    tolerance: IkTolerance = field(default_factory=IkTolerance)
    """Tolerance of a solution."""
    attempts: int = 100
    """Max number of seeds, including given ones."""
    timeout: float = 0.05
    """Timeout [s]."""
    max_iterations: int | None = None
    """Max total number of iterations over all seeds; None: unlimited."""
    random_seed: int = 123456
    """Seed of the random numbers, for reproducible results."""
    prefer: Literal["first", "closest"] = "first"
    """``first``: the first solution found, but the one from the seed if there is one. ``closest``:
    of the solutions from all seeds, the one closest to the seed."""

    def __post_init__(self) -> None:
        if not isinstance(self.tolerance, IkTolerance):
            raise InvalidConfig(
                f"tolerance must be an IkTolerance, got {self.tolerance!r}.", field="tolerance"
            )
        _check_count("attempts", self.attempts, 1)
        if self.max_iterations is not None:
            _check_count("max_iterations", self.max_iterations, 1)
        _check_count("random_seed", self.random_seed, 0)
        if not (isinstance(self.timeout, Real) and self.timeout > 0.0):
            raise InvalidConfig(
                f"timeout is {self.timeout!r:.60} s; it must be above 0.", field="timeout"
            )
        if self.prefer not in ("first", "closest"):
            raise InvalidConfig(
                f"prefer is '{self.prefer}'; allowed are 'first' and 'closest'.", field="prefer"
            )


def _check_count(name: str, value: object, least: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value) < least:  # type: ignore[call-overload]
        raise InvalidConfig(
            f"{name} is {value!r}; it must be a whole number of at least {least}.", field=name
        )


class IkRequest(NamedTuple):
    """Target of the tip, and seeds.

    A named tuple, like the result, because a frozen dataclass takes a microsecond longer to create.
    """

    target: ArrayLike
    """Pose of the tip in the world, ``X_WT``, shape (4, 4)."""
    seed: ArrayLike | None = None
    """Initial joint positions, usually the current ones [rad or m], shape (n,); the solution is
    close to them if possible. Values beyond a limit are clamped."""
    initial_guesses: ArrayLike | None = None
    """Further initial guesses, tried before random ones [rad or m], shape (m, n)."""
    base_pose: ArrayLike | None = None
    """Pose of the chain's base in the world, ``X_WB``, shape (4, 4); None: identity."""
    locked: Mapping[str, float] | None = None
    """Joints that are fixed at a position [rad or m]."""
    objectives: Sequence[Objective] = ()
    """Objectives for the redundancy; see :mod:`motion_nodes.core.ik.redundancy`."""
    validity: Validity | None = None
    """Further condition on a solution, such as being collision-free."""
    settings: IkSettings | None = None
    """Settings of this request; None: those of the solver."""


class IkStatus(enum.Enum):
    """Outcome of a search."""

    SOLVED = "solved"
    NOT_FOUND = "not found"
    """No seed converged to the target."""
    OUT_OF_REACH = "out of reach"
    """No seed converged, and the distance of the target exceeds the length of the chain."""
    TIMED_OUT = "timed out"
    ITERATION_LIMIT = "iteration limit"
    REFUSED = "refused"
    """The target is reachable, but every solution found was rejected by ``validity``."""


class IkResult(NamedTuple):
    """Result of a search."""

    status: IkStatus
    """Outcome of the search."""
    q: Array
    """Joint positions within the limits [rad or m], shape (n,): the solution, or the closest
    configuration."""
    errors: Array
    """Position [m] and rotation vector [rad] of the tip at ``q`` in the target, shape (6,)."""
    position_error: float
    """Norm of the position error over all constrained axes [m]."""
    orientation_error: float
    """Norm of the rotation error over all constrained axes [rad]."""
    iterations: int
    """Total number of iterations over all seeds."""
    attempts: int
    """Number of seeds tried."""
    time: float
    """Duration of the search [s]."""
    reason: str = ""
    """Why there is no solution; for a solution, which part of the pose is free; else empty."""

    @property
    def success(self) -> bool:
        """Whether ``q`` is a solution."""
        return self.status is IkStatus.SOLVED

    def __repr__(self) -> str:
        """Return status, joint positions, errors and reason."""
        q = ", ".join(f"{x:.4g}" for x in self.q)
        errors = f"{1e3 * self.position_error:.3g} mm, {self.orientation_error:.3g} rad"
        reason = f", {self.reason}" if self.reason else ""
        return f"IkResult({self.status.value}, q=[{q}], {errors}{reason})"

    def plot(self, *, svg: bool | None = None) -> Any:
        """Plot the joint positions as bars.

        Args:
            svg: whether to draw SVG; None: only where Matplotlib is missing.

        Returns:
            As ``JointTrajectory.plot``.
        """
        from motion_nodes.core.trajectory.figures import Panel, figure_of

        curve = np.arange(1.0, len(self.q) + 1.0), self.q, ""
        panel = Panel("position [rad or m]", (curve,), "joint", bars=True)
        return figure_of([panel], f"IkResult: {self.status.value}", svg)

    def save(self, path: str | Path) -> None:
        """Write the result to a file, which ``motion_nodes.load`` reads.

        Args:
            path: ``.csv``, ``.json``, ``.npz`` or ``.mcap``.

        Raises:
            InvalidConfig: another suffix, or the file cannot be written.
        """
        facts = self._asdict() | {"status": self.status.value}
        del facts["q"], facts["errors"]
        columns = {"q": self.q[None], "errors": self.errors[None]}
        save_result(path, "ik_result", facts, columns)

    def show(self, robot: Any) -> Any:
        """Show the robot at the joint positions in the browser.

        Args:
            robot: the :class:`.JointGroup` of the positions.

        Returns:
            The page; see ``RobotModel.show``.
        """
        return robot.show(self.q)


@dataclass(frozen=True, eq=False)
class IkBatchResult:
    """Results for m poses, in the order of the poses."""

    status: tuple[IkStatus, ...]
    """Outcome of each search."""
    solved: NDArray[np.bool_]
    """Whether a solution was found, shape (m,), bool."""
    q: Array
    """As in :class:`IkResult`, shape (m, n)."""
    errors: Array
    """As in :class:`IkResult`, shape (m, 6)."""
    iterations: NDArray[np.int64]
    """Iterations per pose, shape (m,)."""
    time: float
    """Total duration [s]."""

    def __len__(self) -> int:
        """Return the number of poses."""
        return len(self.solved)

    def __repr__(self) -> str:
        """Return how many poses are solved, and the time."""
        solved = f"{int(self.solved.sum())} of {len(self)} solved"
        return f"IkBatchResult({solved}, {self.q.shape[-1]} joints, {1e3 * self.time:.3g} ms)"

    @property
    def success(self) -> NDArray[np.bool_]:
        """The same as ``solved``, by the name of :class:`IkResult`."""
        return self.solved

    def plot(self, *, svg: bool | None = None) -> Any:
        """Plot the errors of all poses, smallest first.

        Args:
            svg: whether to draw SVG; None: only where Matplotlib is missing.

        Returns:
            As ``JointTrajectory.plot``.
        """
        from motion_nodes.core.trajectory.figures import Panel, figure_of

        share = 100.0 * (np.arange(len(self)) + 1.0) / max(len(self), 1)
        panels = [
            Panel(
                f"{what} error, log10 [{unit}]",
                ((share, np.log10(np.maximum(np.sort(norms), 1e-12)), ""),),
                "poses [%]",
            )
            for what, unit, norms in (
                ("position", "m", np.linalg.norm(self.errors[:, :3], axis=1)),
                ("rotation", "rad", np.linalg.norm(self.errors[:, 3:], axis=1)),
            )
        ]
        return figure_of(panels, repr(self), svg)

    def save(self, path: str | Path) -> None:
        """Write the results to a file, which ``motion_nodes.load`` reads.

        Args:
            path: ``.csv``, ``.json``, ``.npz`` or ``.mcap``.

        Raises:
            InvalidConfig: another suffix, or the file cannot be written.
        """
        columns = {
            "status": np.array([status.value for status in self.status]),
            "q": self.q, "errors": self.errors, "iterations": self.iterations,
        }  # fmt: skip
        save_result(path, "ik_batch", {"time": self.time}, columns)

    def show(self, robot: Any) -> Any:
        """Show the solutions one after the other in the browser, one each second.

        Args:
            robot: the :class:`.JointGroup` of the positions.

        Returns:
            The page; see ``RobotModel.show``.

        Raises:
            InvalidCommand: no pose was solved.
        """
        from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory

        q = self.q[self.solved]
        if not len(q):
            raise InvalidCommand(f"there is no solution to show: {self!r}.", field="solved")
        # Each stands for most of its second.
        times = (np.arange(len(q))[:, None] + np.array([0.0, 0.8])).ravel()
        return robot.show(
            JointTrajectory(robot.joint_names, times, np.repeat(q, 2, axis=0), None, None)
        )


class IkSolver(Protocol):
    """Interface of all solvers."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""

    def solve(self, request: IkRequest) -> IkResult:
        """Return joint positions that move the tip to the target."""


def rejection(validity: Validity | None, q: Array) -> str:
    """Return why a configuration, shape (n,), is rejected; empty if it is accepted."""
    answer: object = validity is None or validity(q.copy())
    if isinstance(answer, str):
        return answer or "rejected as invalid"
    return "" if answer else "rejected as invalid"


def as_configurations(value: ArrayLike, joints: Sequence[str], what: str) -> Array:
    """Return joint positions as a new float64 array of shape (m, n); one row for shape (n,).

    Raises:
        InvalidCommand: wrong lengths, or values that are not finite or beyond
            :data:`~motion_nodes.core.robot.bounds.JOINT_STATE`.
    """
    try:
        Q = np.array(value, dtype=np.float64, ndmin=2, order="C")
    except (TypeError, ValueError):
        Q = np.empty((0, 0, 0))
    if Q.ndim != 2 or Q.shape[1] != len(joints):
        names = ", ".join(joints)
        raise InvalidCommand(
            f"{what} must hold {len(joints)} joint values ({names}), got {value!r}.", field=what
        )
    if not sum(map(abs, Q.ravel().tolist())) <= JOINT_STATE.max:  # for NaN, too
        if not np.isfinite(Q).all():
            names = ", ".join(joints)
            raise InvalidCommand(
                f"{what} holds numbers that are not finite: {Q.tolist()} ({names}).", field=what
            )
        JOINT_STATE.check(Q, what, joints)
    return Q


def pose_error(X_BE: Array, X_BT: Array) -> Array:
    """Return position [m] and rotation vector [rad] of E in T, shape (6,).

    The rotation vector is axis times angle, at most pi.
    """
    X_TE = X_BT[:3, :3].T @ X_BE[:3]
    X_TE[:, 3] -= X_BT[:3, :3].T @ X_BT[:3, 3]
    return np.array([*X_TE[:, 3].tolist(), *rotation_vector(X_TE)])


def target_in_base(target: ArrayLike, base_pose: ArrayLike | None = None) -> Array:
    """Return the target in the chain's base, ``X_BT``, with an orthonormalized rotation.

    Args:
        target: in the world, ``X_WT``, shape (4, 4).
        base_pose: of the base in the world, ``X_WB``, shape (4, 4); None: identity.

    Raises:
        InvalidCommand: one of them has a wrong shape, is not finite or is not a valid pose.
    """
    X = _orthonormalized(as_pose(target, "target"), "target")
    if base_pose is None:
        return X
    return np.asarray(inverse(_orthonormalized(as_pose(base_pose, "base_pose"), "base_pose")) @ X)


def limits_with(chain: IkChain, locked: Mapping[str, float]) -> Array:
    """Return lower and upper limits [rad or m], shape (2, n), with locked joints.

    Args:
        chain: the chain.
        locked: positions of locked joints [rad or m].

    Raises:
        UnknownJoint: a locked joint is not in the chain.
        InvalidCommand: a position is outside the joint's limits.
    """
    limits = np.array([chain.lower, chain.upper])
    for name, value in locked.items():
        k = joint_index(chain, name)
        low, high = limits[:, k].tolist()
        limits[:, k] = locked_position(name, value, low, high)
    return limits


def locked_position(name: str, value: float, low: float, high: float) -> float:
    """Return the position of a locked joint [rad or m], at a limit if it is outside by rounding.

    Raises:
        InvalidCommand: it is outside the limits, or not finite.
    """
    inside = min(max(value, low), high)
    if not (np.isfinite(value) and abs(value - inside) <= LIMIT_ROUNDING):
        raise InvalidCommand(
            f"joint '{name}' cannot be locked at {value}: its limits are {low:.6g} to {high:.6g}.",
            field=name,
        )
    return inside


def joint_index(chain: IkChain, name: str) -> int:
    """Return the index of a joint in the chain.

    Raises:
        UnknownJoint: lists the joints.
    """
    if name not in chain.joint_names:
        raise UnknownJoint(name, chain.joint_names, f"the chain to '{chain.tip}'")
    return chain.joint_names.index(name)


def _orthonormalized(X: Array, what: str) -> Array:
    """Return a pose with an orthonormalized rotation.

    Source: N. Higham, "Computing the polar decomposition", 1986: Newton-Schulz iteration.
    """
    R = X[:3, :3]
    away = float(np.abs(R.T @ R - _IDENTITY).max())
    (a, b, c, _), (d, e, f, _), (g, h, i, _), last = X.tolist()
    turned = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)
    if not away < 1e-3 or turned < 0.0 or last != [0.0, 0.0, 0.0, 1.0]:
        raise bad_pose(X, what)
    if away < 1e-15:
        return X
    result = X.copy()
    for _ in range(2 if away > 1e-9 else 1):
        result[:3, :3] = R = 0.5 * R @ (3.0 * _IDENTITY - R.T @ R)
    return result


def too_far(chain: IkChain, X_BT: Array) -> str:
    """Return by how much a target is beyond the chain's length [m]."""
    distance = float(np.linalg.norm(X_BT[:3, 3] - chain.origin))
    return (
        f"the target is {distance:.3f} m from {chain.joint_names[0]}, and '{chain.tip}' reaches "
        f"{chain.length:.3f} m at most"
    )


def what_is_nearest(
    joints: Sequence[str], q: Array, limits: tuple[Array, Array], errors: tuple[float, float]
) -> str:
    """Return the error of the closest configuration, and which joints are at their limits."""
    text = f"the closest configuration found is {_metres(errors[0])} and {_degrees(errors[1])} off"
    lower, upper = limits
    ends = []
    for k, name in enumerate(joints):
        if lower[k] == upper[k]:
            continue
        if q[k] - lower[k] <= EQUAL_POSITIONS:
            ends.append(f"{name} at its lower limit {lower[k]:.4g}")
        elif upper[k] - q[k] <= EQUAL_POSITIONS:
            ends.append(f"{name} at its upper limit {upper[k]:.4g}")
    return text + (f", with {', '.join(ends)}" if ends else "")


def _metres(value: float) -> str:
    return f"{value:.3f} m" if value >= 0.1 else f"{value * 1e3:.3g} mm"


def _degrees(value: float) -> str:
    return f"{math.degrees(value):.3g} deg"
