# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of chains with fewer than six joints: what of a pose they can reach.

A chain with five joints reaches few orientations at a position. A pose that it does not reach is
solved again with the rotation about the approach axis free, which is what a grasp needs; one of
fewer than five joints then with a free orientation.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkRequest, IkResult, IkSettings, IkSolver, IkTolerance

_FULL, _GRASP = 6, 5
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
    """Return weaker tolerances for poses that a chain does not reach, in order.

    Args:
        chain: the chain; with six joints or more there are none.
        tolerance: of the pose; if an axis of it is free already, there are none.
    """
    orientation = tolerance.orientation
    count = len(chain.joint_names)
    if count >= _FULL or tolerance.free.any() or not isinstance(orientation, float):
        return ()
    axes = [orientation] * 3
    axes[approach_axis(chain)] = math.inf
    grasp = IkTolerance(tolerance.position, (axes[0], axes[1], axes[2]))
    return (grasp,) if count >= _GRASP else (grasp, IkTolerance.position_only(tolerance.position))


def solve_reachable(solver: IkSolver, request: IkRequest, chain: IkChain) -> IkResult:
    """Solve a request; if a chain with fewer than six joints does not reach the pose, a weaker one.

    Args:
        solver: of the chain.
        request: see :meth:`IkSolver.solve`.

        chain: the chain.

    Returns:
        The result; its reason says what of the pose was left free.
    """
    result = solver.solve(request)
    if result.success:
        return result
    settings = request.settings or IkSettings()
    for tolerance in relaxed_tolerances(chain, settings.tolerance):
        found = solver.solve(request._replace(settings=replace(settings, tolerance=tolerance)))
        if found.success:
            free = (
                "the rotation about its approach axis"
                if tolerance.free.sum() == 1
                else ("its orientation")
            )
            count = len(solver.joint_names)
            return found._replace(reason=f"with {count} joints the tip keeps {free} free")
    return result
