# SPDX-License-Identifier: Apache-2.0
"""Relaxation of poses that chains with fewer than six joints do not reach.

A chain with five joints reaches few orientations at a position. An unreachable pose is solved again
with a relaxed orientation tolerance, then with a free rotation about the approach axis, as grasps
permit. With four joints the orientation is then free except about that axis, such as the yaw of a
SCARA's tool; with fewer than five it is free in the end.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkResult, IkSettings, IkSolver, IkTolerance

FULL = 6
"""Min number of joints of a chain that reaches arbitrary poses."""
_GRASP, _TURN = 5, 4
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
    if count == _TURN:
        levels.append(_turned([math.inf] * 3, approach, axes[0]))
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
    but = " except about its approach axis" if free == 2 else ""
    return f"with {count} joints the tip keeps {what} free{but}"
