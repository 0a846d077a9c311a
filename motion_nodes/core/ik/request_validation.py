# SPDX-License-Identifier: Apache-2.0
"""Inputs of solvers: validated targets and limits, relaxed poses, and the words of failures.

Poses that chains with fewer than six joints do not reach are relaxed. A chain with five joints
reaches few orientations at a position. An unreachable pose is solved again with a relaxed
orientation tolerance, then with a free rotation about the approach axis, as grasps permit; chains
with fewer than five joints also with a free orientation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkSolver,
    IkStatus,
    IkTolerance,
    as_pose,
    bad_pose,
)
from motion_nodes.core.robot.poses import inverse
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.tolerances import EQUAL_POSITIONS, LIMIT_ROUNDING
from motion_nodes.typing import Array

_IDENTITY = np.eye(3)


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


class Ended(Protocol):
    """The attributes of a search that are reported."""

    status: IkStatus
    attempts: int
    iterations: int
    refusals: Counter[str]


def how_it_ended(search: Ended, settings: IkSettings) -> str:
    """Return how a search ended."""
    tried = "1 initial guess" if search.attempts == 1 else f"{search.attempts} initial guesses"
    if search.status is IkStatus.TIMED_OUT:
        ended = f"no solution within {settings.timeout:g} s ({tried}, {search.iterations} steps)"
    elif search.status is IkStatus.ITERATION_LIMIT:
        ended = f"no solution within {search.iterations} iterations ({tried})"
    elif search.status is IkStatus.REFUSED:
        ended = f"no valid solution from {tried}"
    else:
        ended = f"no solution from {tried}"
    if not search.refusals:
        return ended
    common = "; ".join(f"{text} ({count}x)" for text, count in search.refusals.most_common(3))
    return f"{ended}; {search.refusals.total()} refused: {common}"


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


FULL = 6
"""Min number of joints of a chain that reaches arbitrary poses."""
_GRASP = 5
_NEAR = 0.05
"""Relaxed orientation tolerance [rad]."""
_ALIGNED = 0.95
"""Min cosine of the angle between a joint's axis and an axis of the tip that it turns about."""


def approach_axis(chain: IkChain) -> int:
    """Return the index of the tip's approach axis.

    It is the axis about which the last joint turns the tip, if it is one; else z, as for tool
    frames in ROS.
    """
    q = np.zeros(len(chain.joint_names))
    turning = chain.kinematics.jacobian(q, chain.tip)[3:]
    last = turning[:, np.abs(turning).max(axis=0) > 0.5]
    if not last.shape[1]:
        return 2
    along = np.abs(chain.kinematics.pose(q, chain.tip)[:3, :3].T @ last[:, -1])
    return int(np.argmax(along)) if along.max() > _ALIGNED else 2


def relaxed_tolerances(chain: IkChain, tolerance: IkTolerance) -> tuple[IkTolerance, ...]:
    """Return relaxed tolerances for unreachable poses, in order.

    Args:
        chain: the chain; with six joints or more there are none.
        tolerance: of the pose; if an axis of it is free, or axes differ, there are none.
    """
    count = len(chain.joint_names)
    axes = np.broadcast_to(np.asarray(tolerance.orientation, np.float64), 3).tolist()
    if count >= FULL or tolerance.free.any() or len(set(axes)) > 1:
        return ()
    levels, approach = [], approach_axis(chain)
    # Tolerances per axis are regions for solvers, that of the norm is not.
    if axes[0] < _NEAR:
        levels = [_turned(axes, approach, _NEAR), (_NEAR, _NEAR, _NEAR)]
    levels.append(_turned(axes, approach, math.inf))
    weaker = tuple(IkTolerance(tolerance.position, level) for level in levels)
    return weaker if count >= _GRASP else (*weaker, IkTolerance.position_only(tolerance.position))


def _turned(axes: list[float], approach: int, angle: float) -> tuple[float, float, float]:
    """Return tolerances of an orientation with another one about the approach axis."""
    x, y, z = (angle if k == approach else axis for k, axis in enumerate(axes))
    return x, y, z


def solve_reachable(solver: IkSolver, request: IkRequest, chain: IkChain) -> IkResult:
    """Solve a request; with relaxed tolerances if fewer than six joints do not reach the pose.

    Args:
        solver: of the chain.
        request: see :meth:`IkSolver.solve`.
        chain: the chain.

    Returns:
        The result; its reason names the axes of the pose that are free.
    """
    result = solver.solve(request)
    if result.success:
        return result
    settings = request.settings or IkSettings()
    for tolerance in relaxed_tolerances(chain, settings.tolerance):
        found = solver.solve(request._replace(settings=replace(settings, tolerance=tolerance)))
        if found.success:
            return found._replace(reason=what_is_free(chain, tolerance))
    return result


def what_is_free(chain: IkChain, tolerance: IkTolerance) -> str:
    """Return a note on the axes that a relaxed tolerance leaves free."""
    count, free = len(chain.joint_names), tolerance.free.sum()
    if not free:
        return f"with {count} joints the tip's orientation is up to {_NEAR:g} rad off"
    what = "the rotation about its approach axis" if free == 1 else "its orientation"
    return f"with {count} joints the tip keeps {what} free"
